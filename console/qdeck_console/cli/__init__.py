"""The commands: one module for each family, loaded when one of its commands is called."""
