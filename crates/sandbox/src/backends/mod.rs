//! The backends: one folder each, behind the trait [`crate::backend::Backend`].

pub(crate) mod local;
