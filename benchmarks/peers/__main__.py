"""``python -m benchmarks.peers``: measure Holdfast beside other job queues and say whether what is required holds."""

import sys

from benchmarks.peers.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
