//! Variables that skills ask for, and what becomes of them.

use vestal_config::{EnvName, Handing, Settings};

use crate::front_matter::Variable;

/// A variable that a skill asks for, and whether it has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// What is asked for.
    pub variable: Variable,
    /// Whether commands get it.
    pub state: State,
}

/// Whether commands get a variable that a skill asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is set, and they do.
    Set,
    /// It is not set.
    Missing,
    /// It is a key of a model provider or of Vestal's own, and they do not.
    Withheld,
    /// It says how programs on this machine run, and they do not.
    OfTheMachine,
}

impl State {
    /// Returns the word for it that results carry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Missing => "missing",
            Self::Withheld => "withheld",
            Self::OfTheMachine => "not forwarded",
        }
    }
}

impl Need {
    pub(crate) fn of(settings: &Settings, variable: &Variable) -> Self {
        let state = match settings.handing(&variable.name) {
            Handing::Withheld => State::Withheld,
            Handing::OfTheMachine => State::OfTheMachine,
            Handing::Handed => match settings.variable(&variable.name) {
                Ok(Some(_)) => State::Set,
                Ok(None) | Err(_) => State::Missing,
            },
        };
        Self { variable: variable.clone(), state }
    }

    /// Reports whether the skill cannot do without it, and has to.
    pub fn is_unmet(&self) -> bool {
        self.state != State::Set && !self.variable.optional
    }

    /// Returns what there is to say about it, with what to do.
    pub fn in_words(&self) -> String {
        let Variable { name, help, required_for, optional } = &self.variable;
        let what = match self.state {
            State::Set => format!("{name} is set and forwarded"),
            State::Missing => format!("{name} is not set; put {name}=… into the profile's .env"),
            State::Withheld => format!(
                "{name} is not forwarded to what asks for it: it is a key of a model provider or \
                 of Vestal's own; to forward it all the same, add it to terminal.docker_forward_env"
            ),
            State::OfTheMachine => {
                format!("{name} is not forwarded: it says how programs on this machine run")
            }
        };
        let needed = required_for.as_ref().map(|what| format!(" (for {what})")).unwrap_or_default();
        let help = help.as_ref().map(|help| format!(": {help}")).unwrap_or_default();
        let optional = if *optional { ", optional" } else { "" };
        format!("{what}{needed}{optional}{help}")
    }
}

/// Returns the values of the variables that are forwarded, for whoever keeps
/// secrets out of what is shown.
pub(crate) fn values(settings: &Settings, names: &[EnvName]) -> Vec<String> {
    let handed = settings.handed(names);
    handed.into_iter().map(|(_, value)| value.to_string_lossy().into_owned()).collect()
}
