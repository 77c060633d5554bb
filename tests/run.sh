#!/usr/bin/env bash
# Builds everything and runs all tests; ends with ctest's own summary. Enough on a fresh Debian 12.
#   bash tests/run.sh [options of ctest, e.g. -R core]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../.ci/setup.sh"
costate_packages
costate_build
exec ctest --test-dir "$COSTATE_BUILD" -j2 --output-on-failure "$@"
