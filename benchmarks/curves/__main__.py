"""``python -m benchmarks.curves``: how Holdfast's rates and waits change with what it is given."""

import sys

from benchmarks.curves.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
