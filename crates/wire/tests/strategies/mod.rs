//! Strategies for every message of the protocol.

/// Draws every field of a struct, or of a struct-like variant, from a strategy
/// of its own. A field that is forgotten does not compile.
macro_rules! fields {
    (@strategy $first:expr) => { ($first,) };
    (@strategy $first:expr, $($rest:expr),+) => { ($first, fields!(@strategy $($rest),+)) };
    (@pattern $first:ident) => { ($first,) };
    (@pattern $first:ident, $($rest:ident),+) => { ($first, fields!(@pattern $($rest),+)) };
    ($($path:ident)::+ { $($field:ident: $strategy:expr),+ $(,)? }) => {
        fields!(@strategy $($strategy),+)
            .prop_map(|fields!(@pattern $($field),+)| $($path)::+ { $($field),+ })
    };
}

mod call;
mod enclosure;
mod file;
mod greeting;
mod job;

pub(crate) use call::{event, fault, reply, request};
pub(crate) use enclosure::{enclosure, users};
pub(crate) use greeting::{guest_settings, hello, stats, status, welcome};
pub(crate) use job::job_id;

use minicbor::bytes::ByteVec;
use proptest::prelude::*;

/// Any bytes: paths, names and values need not be UTF-8.
fn bytes() -> impl Strategy<Value = ByteVec> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(ByteVec::from)
}

/// Any text.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ -~]{0,20}", 1 => "\\PC{0,20}"]
}

/// A few of something.
fn few<T: std::fmt::Debug>(one: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(one, 0..4)
}

/// Something or nothing.
fn maybe<T: std::fmt::Debug>(one: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(one)
}
