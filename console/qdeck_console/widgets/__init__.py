"""The widgets of the console: one-line panels and windowed lists, drawn line by line."""
