//! Where a task stands.

/// Declares an enum whose values have public names.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $what:literal { $($(#[$value_doc:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$value_doc])* $value,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Returns the public name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word,)+ }
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> ::std::result::Result<Self, String> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    let words: Vec<&str> = Self::ALL.iter().map(|value| value.as_str()).collect();
                    format!("{text:?} is no {}; there are: {}", $what, words.join(", "))
                })
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let word = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                word.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use words;

words! {
    /// Where a task stands.
    Status: "status" {
        /// A rough idea that somebody has to make a task of.
        Triage = "triage",
        /// It waits for other tasks.
        Todo = "todo",
        /// It waits for a moment, or is put away until somebody takes it up.
        Scheduled = "scheduled",
        /// It can be worked on.
        Ready = "ready",
        /// Somebody holds it and works on it.
        Running = "running",
        /// It waits for a person, or, after a passing trouble, for a moment.
        Blocked = "blocked",
        /// The work is done and has to be looked at.
        Review = "review",
        /// It is done.
        Done = "done",
        /// It is put away for good.
        Archived = "archived",
    }
}

impl Status {
    /// Reports whether tasks that wait for one of this status need not any more.
    pub const fn satisfies_children(self) -> bool {
        matches!(self, Self::Done | Self::Archived)
    }
}

words! {
    /// Why a task is blocked.
    BlockKind: "kind of block" {
        /// A person has to answer or decide.
        NeedsInput = "needs_input",
        /// The worker cannot do it: a right, a tool, a login is missing.
        Capability = "capability",
        /// Something passing is in the way; it is tried again by itself.
        Transient = "transient",
        /// It waits for other tasks that it is linked to.
        Dependency = "dependency",
        /// It was tried too often.
        GaveUp = "gave_up",
        /// It was made to wait for a person from the start.
        Gate = "gate",
    }
}
