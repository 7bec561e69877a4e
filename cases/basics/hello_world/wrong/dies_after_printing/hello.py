def main() -> str:
    print("Hello, World!")
    return "finished"


# A non-empty string given to SystemExit means status 1.
raise SystemExit(main())
