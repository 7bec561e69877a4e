print("\n\n   Hello, World!   \n")
