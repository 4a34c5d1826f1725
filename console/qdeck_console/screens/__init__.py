"""The screens of the console: one module per tab, and what opens over them."""
