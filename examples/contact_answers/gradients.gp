# gnuplot -c examples/contact_answers/gradients.gp FOLDER PICTURE, of the tables of example_10_friction FOLDER,
# example_11_missed_throw FOLDER/throw.csv and example_12_averaging FOLDER/onset.csv
set datafile separator ','
set terminal pngcairo size 1300, 1000
set output ARG2
set multiplot layout 2, 2
block = ARG1.'/block.csv'; throw = ARG1.'/throw.csv'; box = ARG1.'/box.csv'; onset = ARG1.'/onset.csv'

set title 'Block: sticks below 9.81 N, slides above'
set xlabel 'push [N]'; set ylabel 'mass / T × d speed at T / d push'
set yrange [-0.05:1.1]; set key right bottom
set arrow 1 from 9.81, -0.05 to 9.81, 1.1 nohead dt 2 lc 'gray'
plot block skip 1 using 1:2 with lines lw 3 lc 'black' title 'true', '' skip 1 using 1:3 with lines lw 2 lc 'blue' title 'friction 100 1/s', \
     '' skip 1 using 1:4 with lines lw 2 lc 'red' title 'friction 10 1/s'
unset arrow 1

set title 'Throw at a wall: the target is hit where the loss is not flat'
set xlabel 'upward speed [m/s]'; set ylabel 'loss, and its slope (asinh)'; set yrange [-17:24]; set key right top
plot throw skip 1 using 1:(100 * $2) with lines lw 3 lc 'gray' title '100 × loss', '' skip 1 using 1:(asinh($3)) with lines lw 2 lc 'black' title 'true slope', \
     '' skip 1 using 1:(asinh($4)) with lines lw 2 lc 'blue' title 'distance 0.5 m, along the true motion'

set title 'Box on four corners: d acceleration / d force'
unset key; set xlabel 'force, torque by x, y, z'; set ylabel 'linear, angular by x, y, z'
set palette defined (-2 'blue', 0 'white', 2 'red'); set cbrange [-2:2]; set xrange [-0.5:5.5]; set yrange [5.5:-0.5]
set xtics ('x' 0, 'y' 1, 'z' 2, 'rx' 3, 'ry' 4, 'rz' 5); set ytics ('x' 0, 'y' 1, 'z' 2, 'rx' 3, 'ry' 4, 'rz' 5)
plot box matrix with image, box matrix using 1:2:($3 == 0 ? '' : sprintf('%.3g', $3)) with labels

set title 'Ball at touch: − d speed / d height of a step'
set xtics auto; set ytics auto; set autoscale; unset colorbox; set key right top
set logscale xy; set xlabel 'nudge, or standard deviation of the noise [m]'; set ylabel '1/s'; set format '10^{%T}'
plot onset skip 1 using 1:(-$2) with lines lw 3 lc 'black' title 'quotient, true', '' skip 1 using 1:(-$3) with lines lw 3 lc 'gray' title 'quotient, onset 5 mm', \
     '' skip 1 using 1:(-$4):7 with yerrorbars pt 6 lc 'blue' title 'average, order one', '' skip 1 using 1:(-$5):8 with yerrorbars pt 4 lc 'red' title 'order zero', \
     '' skip 1 using 1:(-$6) with points pt 2 lc 'dark-green' title 'combined'
