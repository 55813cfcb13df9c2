//! The schema: every key, once.
//!
//! To add a key, add an entry to its group below this module; reading, checking,
//! documentation and tests follow. The doc comment is the text users read.

use crate::key::AnyKey;

const DAY: u64 = 24 * 60 * 60;
const YEAR: u64 = 365 * DAY;

/// Declares a group of keys and the table of them.
macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])+
        $id:ident: $kind:ty = $name:literal {
            default: $default:expr,
            limits: $limits:expr,
            env: $env:expr,
            $(aliases: $aliases:expr,)?
            $(secrecy: $secrecy:expr,)?
            $(protection: $protection:expr,)?
        }
    )+) => {
        $(
            $(#[doc = $doc])+
            pub static $id: $crate::key::Key<$kind> = $crate::key::Key {
                name: $name,
                aliases: &keys!(@or [] $(, $aliases)?),
                env: &$env,
                doc: concat!($($doc),+),
                secrecy: keys!(@or $crate::key::Secrecy::Public $(, $secrecy)?),
                protection: keys!(@or $crate::key::Protection::None $(, $protection)?),
                limits: $limits,
                default: $default,
            };
        )+

        /// The keys of this group, in the order they are documented.
        pub(super) static GROUP: &[&dyn $crate::key::AnyKey] = &[$(&$id),+];
    };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
}

mod agent;
mod chat;
mod kanban;
mod mcp;
mod memory;
mod model;
mod safety;
mod skills;
mod terminal;

pub use agent::*;
pub use chat::*;
pub use kanban::*;
pub use mcp::*;
pub use memory::*;
pub use model::*;
pub use safety::*;
pub use skills::*;
pub use terminal::*;

static GROUPS: [&[&dyn AnyKey]; 9] = [
    terminal::GROUP,
    model::GROUP,
    agent::GROUP,
    safety::GROUP,
    memory::GROUP,
    skills::GROUP,
    mcp::GROUP,
    chat::GROUP,
    kanban::GROUP,
];

const COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < GROUPS.len() {
        count += GROUPS[at].len();
        at += 1;
    }
    count
};

/// All keys, in the order they are documented.
pub static ALL: &[&dyn AnyKey] = &{
    let mut all: [&dyn AnyKey; COUNT] = [GROUPS[0][0]; COUNT];
    let (mut group, mut place) = (0, 0);
    while group < GROUPS.len() {
        let mut at = 0;
        while at < GROUPS[group].len() {
            all[place] = GROUPS[group][at];
            at += 1;
            place += 1;
        }
        group += 1;
    }
    all
};

/// Returns the key that a name or another name of it stands for.
pub fn find(name: &str) -> Option<&'static dyn AnyKey> {
    ALL.iter().copied().find(|key| key.name() == name || key.aliases().contains(&name))
}

/// Returns the key that a variable sets.
pub fn find_by_variable(name: &str) -> Option<&'static dyn AnyKey> {
    ALL.iter().copied().find(|key| key.env().contains(&name))
}

/// Returns all names of all keys.
pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter()
        .flat_map(|key| std::iter::once(key.name()).chain(key.aliases().iter().copied()))
        .collect()
}

/// Reports whether a dotted name is a section that holds keys.
pub(crate) fn is_section(name: &str) -> bool {
    names().iter().any(|key| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}
