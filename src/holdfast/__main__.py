"""The program ``holdfast``, and ``python -m holdfast``."""


def main() -> int:
    # Inside, so that Ctrl-C while everything is still being imported ends it without a traceback.
    try:
        from holdfast.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
