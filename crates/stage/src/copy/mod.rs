//! `copy`: copies a tree of files.
//!
//! `vestal-stage copy [--with-caller] FROM TO` keeps owners, permissions, times, attributes, hard
//! links, holes and special files, so that the layers of a sandbox can be mounted
//! again and programs see no difference. The tree is not trusted: no link is
//! followed, nothing outside the tree is touched, and mounts are not copied.
//!
//! `TO` must not exist. Until it is complete only its owner can enter it, and after a
//! failure it is removed.
//!
//! With `--with-caller` the copy ends when nobody reads its standard output any more,
//! and has a shared lock (`flock`) on the directory of `TO` until it has exited.
//! A process that can lock that directory exclusively is not disturbed by such a copy.
//!
//! | file | content |
//! |---|---|
//! | `program.rs` | the command line, progress, cancellation, cleaning up |
//! | `tree.rs` | the queue of directories and the workers |
//! | `entries.rs` | copies one directory, file, link or special file |
//! | `content.rs`, `metadata.rs` | copies the content and the metadata of a file |
//! | `beneath.rs` | opens and removes entries without leaving the tree |

mod beneath;
mod content;
mod entries;
mod metadata;
mod program;
mod tree;

pub(crate) use program::main;
