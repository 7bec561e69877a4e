print("Starting up ...")
print("Hello, World!")
print("Done.")
