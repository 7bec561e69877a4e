def main() -> None:
    print("Hello, World!")
