"""Sub-layers and what they are made of. They know nothing of the design around them."""
