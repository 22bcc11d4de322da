"""Messages with the fields that the examples use."""


class JointSingleCommand:
    def __init__(self, name, cmd):
        self.name, self.cmd = name, cmd
