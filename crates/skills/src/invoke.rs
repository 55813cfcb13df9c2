//! A skill that is called by its name: by a person in a chat, or by a task.

use std::io::Read as _;

use async_recursion::async_recursion as boxed;
use vestal_config::{EnvName, Settings};
use vestal_sandbox::{Sandbox, SandboxSettings as _, VariableForwarding};

use crate::error::SkillError;
use crate::front_matter::{SkillVariable, part};
use crate::path::open_file;
use crate::skill::{MAX_INSTRUCTIONS, Skill};
use crate::skills::Skills;
use crate::tools::{aside, show};

impl Skills {
    /// Returns what is said to the model when a person calls a skill, as in
    /// `/deploy to staging`: the skill's instructions, and the person's words.
    pub fn invocation(&self, name: &str, words: &str) -> Result<String, SkillError> {
        let skill = self.get(name)?;
        let mut instructions = self.instructions(&skill)?;
        if self.survey(&skill).is_ok_and(|survey| survey.has_more_than_instructions()) {
            let files =
                format!("\n\n(Its files: skill_view with name={name} says where they are.)");
            instructions.push_str(&files);
        }
        let words = words.trim();
        if !words.is_empty() {
            instructions.extend(["\n\nWhat for: ", words]);
        }
        Ok(instructions)
    }

    /// Returns what is said to the model when its work asks for a skill: the
    /// instructions, and where its files are, which the sandbox is shown.
    #[boxed]
    pub async fn open_in(&self, sandbox: &Sandbox, name: &str) -> Result<String, SkillError> {
        let (skills, asked) = (self.clone(), name.trim().trim_start_matches('/').to_owned());
        let looked = aside(move || {
            let skill = skills.get(&asked)?;
            let instructions = skills.instructions(&skill)?;
            Ok::<_, SkillError>((skills.survey(&skill), skill, instructions))
        });
        let (survey, skill, mut instructions) = looked.await?;
        let shown = match survey {
            Ok(survey) if !survey.has_more_than_instructions() => return Ok(instructions),
            Ok(_) => show(sandbox, &skill).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match shown {
            Ok(path) => {
                instructions.extend([
                    "\n\n(Its files are in ",
                    &path.to_string_lossy(),
                    ", read-only.)",
                ]);
            }
            Err(error) => {
                instructions.extend([
                    "\n\n(Its files cannot be shown to the sandbox: ",
                    &error,
                    ")",
                ]);
            }
        }
        Ok(instructions)
    }

    /// Returns the instructions as the model gets them, with what the skill
    /// lacks.
    fn instructions(&self, skill: &Skill) -> Result<String, SkillError> {
        let text = self.read_instructions(skill)?;
        let body = part(&text).map_or(&*text, |parted| parted.body).trim();
        let mut instructions = format!("Use the skill {}, which says:\n\n{body}", skill.name());
        let needs = self.needs(skill);
        let unmet: Vec<String> =
            needs.iter().filter(|need| need.is_unmet()).map(Need::in_words).collect();
        if !unmet.is_empty() {
            instructions.extend(["\n\n(It lacks something: ", &unmet.join("; "), ")"]);
        }
        Ok(instructions)
    }

    /// Reads the instructions of a skill, front matter and all.
    pub fn read_instructions(&self, skill: &Skill) -> Result<String, SkillError> {
        let path = skill.instructions();
        let failed = || SkillError::io("read", &path);
        let mut bytes = Vec::new();
        let file = open_file(&path).map_err(failed())?;
        file.take(MAX_INSTRUCTIONS + 1).read_to_end(&mut bytes).map_err(failed())?;
        if bytes.len() as u64 > MAX_INSTRUCTIONS {
            let text = format!("{} is larger than {} KiB", path.display(), MAX_INSTRUCTIONS >> 10);
            return Err(SkillError::TooLarge(text));
        }
        // What is not text further down should not hide the rest.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A variable that a skill asks for, and whether it has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// What is asked for.
    pub variable: SkillVariable,
    /// Whether commands get it.
    pub state: VariableState,
}

/// Whether commands get a variable that a skill asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableState {
    /// It is set, and they do.
    Set,
    /// It is not set.
    Missing,
    /// It is a key of a model provider or of Vestal's own, and they do not.
    Withheld,
    /// It says how programs on this machine run, and they do not.
    OfTheMachine,
}

impl VariableState {
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
    pub(crate) fn of(settings: &Settings, variable: &SkillVariable) -> Self {
        let state = match settings.handing(&variable.name) {
            VariableForwarding::Withheld => VariableState::Withheld,
            VariableForwarding::OfTheMachine => VariableState::OfTheMachine,
            VariableForwarding::Handed => match settings.variable(&variable.name) {
                Ok(Some(_)) => VariableState::Set,
                Ok(None) | Err(_) => VariableState::Missing,
            },
        };
        Self { variable: variable.clone(), state }
    }

    /// Reports whether the skill cannot do without it, and has to.
    pub fn is_unmet(&self) -> bool {
        self.state != VariableState::Set && !self.variable.optional
    }

    /// Returns what there is to say about it, with what to do.
    pub fn in_words(&self) -> String {
        let SkillVariable { name, help, required_for, optional } = &self.variable;
        let what = match self.state {
            VariableState::Set => format!("{name} is set and forwarded"),
            VariableState::Missing => {
                format!("{name} is not set; put {name}=… into the profile's .env")
            }
            VariableState::Withheld => format!(
                "{name} is not forwarded to what asks for it: it is a key of a model provider or \
                 of Vestal's own; to forward it all the same, add it to terminal.docker_forward_env"
            ),
            VariableState::OfTheMachine => {
                format!("{name} is not forwarded: it says how programs on this machine run")
            }
        };
        let needed = required_for.as_ref().map(|what| format!(" (for {what})")).unwrap_or_default();
        let help = help.as_ref().map(|help| format!(": {help}")).unwrap_or_default();
        let optional = if *optional { ", optional" } else { "" };
        format!("{what}{needed}{optional}{help}")
    }
}

/// Returns the values of the variables that are forwarded, for masking
/// secrets in what is shown.
pub(crate) fn values(settings: &Settings, names: &[EnvName]) -> Vec<String> {
    let handed = settings.handed(names);
    handed.into_iter().map(|(_, value)| value.to_string_lossy().into_owned()).collect()
}
