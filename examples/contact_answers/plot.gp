# gnuplot -c examples/contact_answers/plot.gp TABLE PICTURE, of the table that example_09_impact writes
set datafile separator ','
set terminal pngcairo size 1000, 900
set output ARG2
set multiplot layout 3, 1
set key left bottom
set ylabel 'height [m]'
plot ARG1 skip 1 using 1:2 with lines lc 'black' notitle
set yrange [-3.5:3.5]
set ylabel 'd height / d start height [m/m]'
plot ARG1 skip 1 using 1:3 with lines lw 5 lc 'gray' title 'closed form', '' skip 1 using 1:5 with lines lc 'blue' title 'event', \
     '' skip 1 using 1:7 with lines lc 'red' title 'product of engine step derivatives'
set ylabel 'd height / d start velocity [m/(m/s)]'
set xlabel 'time [s]'
plot ARG1 skip 1 using 1:4 with lines lw 5 lc 'gray' notitle, '' skip 1 using 1:6 with lines lc 'blue' notitle, \
     '' skip 1 using 1:8 with lines lc 'red' notitle
