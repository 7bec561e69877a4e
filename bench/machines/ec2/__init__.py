"""The engine `ec2`.

One request makes a machine with everything that is its own: tags, disks, the end of its life. `Ec2Engine` sends it;
`user_data` is what the machine does from its first second on.
"""
