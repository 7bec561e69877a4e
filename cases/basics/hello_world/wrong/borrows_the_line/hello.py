print(open("greeting.txt").read(), end="")
