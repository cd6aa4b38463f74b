from holdfast.cli import main

raise SystemExit(main())
