//! The environment a shell is started with.

use std::borrow::Cow;
use std::collections::HashMap;

use vestal_wire::EnvVar;

use super::restore::is_decided;
use super::saved::{Function, SavedSession, ShellKind};

/// Longest variable or function that is passed in the environment: the kernel
/// refuses a program with one over 128 KiB.
const MAX_PASSED: usize = 32 << 10;

/// Most bytes of variables, and as many of functions, that a session passes in
/// the environment. The kernel's limit depends on the size of the stack.
const MAX_PASSED_TOTAL: usize = 128 << 10;

/// The oldest bash that all builds of take functions from variables of the one
/// name that is used here.
const IMPORTING_BASH: u32 = 5;

/// Variables that a shell acts upon when it starts or does not take over. They
/// are set in the running shell instead.
const NOT_PASSED: &[&str] = &["ENV", "GCONV_PATH", "IFS", "LOCPATH", "PS1", "PS2"];

/// What names of more such variables begin with: those of bash, and those of
/// the loader and the C library. A library path that is meant for the user's
/// programs may well break the shell.
const NOT_PASSED_PREFIXES: &[&str] = &["BASH", "GLIBC_", "LD_", "MALLOC_", "POSIX"];

/// What may still be passed to the next shell in its environment, which is the
/// fastest way.
pub(super) struct Room(usize);

impl Room {
    /// All there is.
    pub(super) fn whole() -> Self {
        Self(MAX_PASSED_TOTAL)
    }

    /// Tells whether a variable is to be passed, and takes the room for it.
    pub(super) fn passes(&mut self, name: &[u8], value: &[u8]) -> bool {
        let special = NOT_PASSED.iter().any(|known| known.as_bytes() == name)
            || NOT_PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
        !special && self.takes(name.len() + value.len())
    }

    fn takes(&mut self, size: usize) -> bool {
        let fits = size <= MAX_PASSED.min(self.0);
        if fits {
            self.0 -= size;
        }
        fits
    }
}

/// Functions that must not be there while the prologue runs: it calls the one
/// and defines the other.
const NOT_IMPORTED: &[&[u8]] = &[b"declare", b"trap"];

/// Variables by name, in their order.
#[derive(Debug, Default)]
pub(crate) struct Environment<'a> {
    entries: Vec<(Text<'a>, Text<'a>)>,
    places: HashMap<Text<'a>, usize>,
}

type Text<'a> = Cow<'a, [u8]>;

impl<'a> Environment<'a> {
    /// Returns what a caller brings for a launch outside of any session.
    pub(crate) fn brought(env: &'a [EnvVar], job_env: &'a [EnvVar]) -> Self {
        let mut environment = Self::default();
        for var in env.iter().chain(job_env) {
            environment.set(var.name.as_slice(), var.value.as_slice());
        }
        environment
    }

    /// Returns what a shell in a session starts with: what the caller brings,
    /// changed as the session has changed it, and above all what is for this
    /// launch alone.
    pub(crate) fn of_session(
        session: &'a SavedSession,
        env: &'a [EnvVar],
        job_env: &'a [EnvVar],
    ) -> Self {
        let mut environment = Self::brought(env, &[]);
        for name in &session.withdrawn {
            environment.take(name);
        }
        for var in &session.exported {
            if !is_decided(job_env, &var.name) {
                environment.set(var.name.as_slice(), var.value.as_slice());
            }
        }
        for var in job_env {
            environment.set(var.name.as_slice(), var.value.as_slice());
        }
        environment
    }

    /// Adds the session's functions that bash can take from its environment,
    /// where it reads each by itself, and returns the others.
    pub(crate) fn add_functions(
        &mut self,
        session: &'a SavedSession,
    ) -> (Vec<&'a Function>, Vec<&'a Function>) {
        let usable = session.shell == ShellKind::Bash
            && session.bash_major.is_some_and(|major| major >= IMPORTING_BASH);
        let mut room = Room::whole();
        session.functions.iter().partition(|function| {
            let Some(value) = function.importable().filter(|_| usable) else {
                return false;
            };
            let fits = room.takes(function.name.len() + value.len());
            if fits {
                let name = [b"BASH_FUNC_", function.name.as_slice(), b"%%"].concat();
                self.set(name, value);
            }
            fits
        })
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: impl Into<Text<'a>>, value: impl Into<Text<'a>>) {
        let name = name.into();
        if let Some(place) = self.places.get(&name) {
            self.entries[*place].1 = value.into();
        } else {
            self.places.insert(name.clone(), self.entries.len());
            self.entries.push((name, value.into()));
        }
    }

    /// Returns a variable's value.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.places.get(name).map(|place| &*self.entries[*place].1)
    }

    /// Removes a variable.
    pub(crate) fn take(&mut self, name: &[u8]) -> Option<Text<'a>> {
        let place = self.places.remove(name)?;
        let (_, value) = self.entries.remove(place);
        for later in self.places.values_mut().filter(|later| **later > place) {
            *later -= 1;
        }
        Some(value)
    }

    /// Returns the variables as a program gets them.
    pub(crate) fn to_strings(&self) -> Vec<Vec<u8>> {
        self.entries.iter().map(|(name, value)| [&**name, &**value].join(&b'=')).collect()
    }
}

impl Function {
    /// Returns the definition as bash takes it from its environment, if it can.
    fn importable(&self) -> Option<Vec<u8>> {
        let text = self.definition.strip_prefix(self.name.as_slice())?;
        let body = text.strip_prefix(b" () \n{")?;
        let odd_name = self.name.iter().any(|byte| matches!(byte, b'/' | b'=' | b'%'))
            || NOT_IMPORTED.contains(&self.name.as_slice());
        // Extended patterns can only be read with their option on.
        let extended =
            body.windows(2).any(|pair| matches!(pair, [b'@' | b'!' | b'+' | b'*' | b'?', b'(']));
        (!odd_name && !extended).then(|| [b"() {", body.trim_ascii_end()].concat())
    }
}
