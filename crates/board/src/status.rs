//! Statuses of tasks, and why they are blocked.

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
                    format!("{text:?} is not a valid {}; there are: {}", $what, words.join(", "))
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
    /// The status of a task.
    Status: "status" {
        /// A rough idea that a person has to turn into a task.
        Triage = "triage",
        /// It waits for its parents.
        Todo = "todo",
        /// It waits for a time, or until a person takes it up.
        Scheduled = "scheduled",
        /// It can be started.
        Ready = "ready",
        /// A run holds it.
        Running = "running",
        /// It waits for a person, or after a transient error for a time.
        Blocked = "blocked",
        /// The work is done and waits for review.
        Review = "review",
        /// It is done.
        Done = "done",
        /// It is archived.
        Archived = "archived",
    }
}

impl Status {
    /// Reports whether children of a task with this status can start.
    pub const fn satisfies_children(self) -> bool {
        matches!(self, Self::Done | Self::Archived)
    }
}

words! {
    /// Why a task is blocked.
    BlockKind: "kind of block" {
        /// A person has to answer or decide.
        NeedsInput = "needs_input",
        /// The worker cannot do it: a permission, a tool or a login is missing.
        Capability = "capability",
        /// A transient error; it is tried again automatically.
        Transient = "transient",
        /// It waits for its parents.
        Dependency = "dependency",
        /// It failed too often.
        GaveUp = "gave_up",
        /// It was created to wait for a person.
        Gate = "gate",
    }
}
