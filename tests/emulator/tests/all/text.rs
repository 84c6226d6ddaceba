//! Texts that are no modules of the subset: each is refused, at its line.
