try:
    from holdfast.cli import main

    code = main()
except KeyboardInterrupt:  # while everything was still being imported
    code = 130
raise SystemExit(code)
