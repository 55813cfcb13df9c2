//! The skills of a profile.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use vestal_agent::redact::Redactor;
use vestal_agent::{ALL, Registry, Tool, ToolSource};
use vestal_config::{EnvName, Names, SettingKey, Settings};
use vestal_sandbox::{BundleError, Engine};

use crate::catalogue::{Catalogue, Survey};
use crate::error::SkillError;
use crate::invoke::Need;
use crate::keys;
use crate::skill::Skill;
use crate::tools::{SkillManage, SkillViewTool, SkillsList, TOOLSET};

/// Name of the folder of skills in a profile's home.
const FOLDER: &str = "skills";

/// How much a name may differ from what was meant.
const LIKENESS: f64 = 0.75;

/// The skills of a profile. Cheap to clone; what is installed is looked at again
/// whenever it is asked for.
#[derive(Debug, Clone)]
pub struct Skills {
    inner: Arc<SkillsState>,
}

#[derive(Debug)]
struct SkillsState {
    root: PathBuf,
    settings: Arc<Settings>,
    /// The notices about broken skills.
    reported: Mutex<BTreeSet<String>>,
    /// Who gets the variables that skills ask for.
    equipped: Mutex<Option<Equipped>>,
}

/// Whose commands get the variables, and who keeps their values out of sight.
#[derive(Debug, Clone)]
struct Equipped {
    engine: Engine,
    redactor: Arc<Redactor>,
}

/// Returns the skills of the profile that the settings belong to. What is wrong
/// with one of them is reported by [`Skills::take_notices`] and hinders none.
pub fn from_settings(settings: &Arc<Settings>) -> Skills {
    let inner = SkillsState {
        root: settings.home().dir().join(FOLDER),
        settings: Arc::clone(settings),
        reported: Mutex::default(),
        equipped: Mutex::default(),
    };
    Skills { inner: Arc::new(inner) }
}

impl Skills {
    /// Returns the folder they are in.
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Returns the settings they were made from.
    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Looks at what is installed.
    pub fn catalogue(&self) -> Catalogue {
        // Disabling a skill counts for running conversations, too.
        let disabled = self.settings().reload().get(&keys::SKILLS_DISABLED);
        let disabled = disabled.or_else(|_| self.settings().get(&keys::SKILLS_DISABLED));
        let disabled = disabled.map(|found| found.value);
        Catalogue::scan(self.root(), |name| {
            disabled.as_ref().is_ok_and(|names| names.contains(name))
        })
    }

    /// Returns the skill of a name that is in order and used: what `/name` means
    /// where no command has that name.
    pub fn find(&self, name: &str) -> Option<Skill> {
        self.catalogue()
            .skills
            .into_iter()
            .find(|skill| skill.enabled && skill.name().as_str() == name)
    }

    /// Returns the names of those that are used, for completion.
    pub fn names(&self) -> Vec<String> {
        let skills = self.catalogue().skills.into_iter().filter(|skill| skill.enabled);
        skills.map(|skill| skill.name().to_string()).collect()
    }

    /// Returns the skill of a name, or says why it cannot be used.
    pub fn get(&self, name: &str) -> Result<Skill, SkillError> {
        let skill = self.installed(name)?;
        if skill.enabled { Ok(skill) } else { Err(SkillError::Disabled(name.to_owned())) }
    }

    /// Returns the skill of a name, used or not.
    pub fn installed(&self, name: &str) -> Result<Skill, SkillError> {
        let catalogue = self.catalogue();
        if let Some(skill) = catalogue.get(name) {
            return Ok(skill.clone());
        }
        if let Some(broken) = catalogue.get_broken(name) {
            return Err(SkillError::Broken(Box::new(broken.clone())));
        }
        let names = catalogue.skills.iter().map(|skill| skill.name().as_str());
        let alike = names.map(|own| (strsim::jaro_winkler(own, name), own));
        let nearest = alike.max_by(|a, b| a.0.total_cmp(&b.0));
        let suggestion = nearest.filter(|(alike, _)| *alike > LIKENESS);
        Err(SkillError::Unknown {
            name: name.to_owned(),
            suggestion: suggestion.map(|(_, own)| own.to_owned()),
        })
    }

    /// Returns what a skill consists of.
    pub fn survey(&self, skill: &Skill) -> Result<Survey, BundleError> {
        Survey::of(skill.dir())
    }

    /// Returns the variables that a skill asks for, and whether it has them.
    pub fn needs(&self, skill: &Skill) -> Vec<Need> {
        let need = |variable| Need::of(self.settings(), variable);
        skill.about.variables.iter().map(need).collect()
    }

    /// Returns the variables that the skills in use ask for.
    pub fn variables(&self) -> Vec<EnvName> {
        // Every command of the program comes by here, and most homes have none.
        if !self.root().is_dir() {
            return Vec::new();
        }
        let catalogue = self.catalogue();
        let used = catalogue.skills.iter().filter(|skill| skill.enabled);
        let names = used.flat_map(|skill| &skill.about.variables).map(|own| own.name.clone());
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Forwards the variables that skills ask for into the engine's sandboxes,
    /// as they are now.
    pub fn forward(&self, engine: &Engine) {
        engine.forward(&self.variables());
    }

    /// Forwards the variables that skills ask for into the engine's sandboxes,
    /// and has their values kept out of what is stored and shown. A conversation
    /// that these skills are a source of does so again with each of its turns.
    pub fn equip(&self, engine: &Engine, redactor: &Arc<Redactor>) {
        let equipped = Equipped { engine: engine.clone(), redactor: Arc::clone(redactor) };
        *self.equipped() = Some(equipped);
        self.equip_again();
    }

    /// Forwards what skills ask for now: some may have been installed, enabled
    /// or disabled since.
    pub(crate) fn equip_again(&self) {
        let Some(Equipped { engine, redactor }) = self.equipped().clone() else { return };
        let names = self.variables();
        redactor.learn(crate::invoke::values(self.settings(), &names));
        engine.forward(&names);
    }

    fn equipped(&self) -> MutexGuard<'_, Option<Equipped>> {
        self.inner.equipped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tools: `skills_list`, `skill_view` and `skill_manage`.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![
            Arc::new(SkillsList::new(self.clone())),
            Arc::new(SkillViewTool::new(self.clone())),
            Arc::new(SkillManage::new(self.clone())),
        ]
    }

    /// Adds the tools to an agent's.
    pub fn add_to(&self, registry: &mut Registry) {
        for tool in self.tools() {
            registry.add(tool);
        }
    }

    /// Takes the notices for a person: which skills are broken, each once.
    pub fn take_notices(&self) -> Vec<String> {
        let broken = self.catalogue().broken;
        let mut reported = self.inner.reported.lock().unwrap_or_else(PoisonError::into_inner);
        broken
            .iter()
            .map(ToString::to_string)
            .filter(|notice| reported.insert(notice.clone()))
            .collect()
    }
}

/// What is wrong with a skill is reported in the conversation, once, and each turn
/// has the variables that skills ask for when it begins. The tools are not from
/// here: they are always there, see [`Skills::add_to`].
#[async_trait]
impl ToolSource for Skills {
    async fn settle(&self) {}

    fn version(&self) -> u64 {
        0
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    fn take_notices(&self) -> Vec<String> {
        self.equip_again();
        Self::take_notices(self)
    }
}

/// Skills that are named.
const MOST: usize = 150;

/// Characters of a description there.
const LONGEST: usize = 200;

/// Characters of all of it.
const TOTAL: usize = 16_000;

const INTRODUCTION: &str = "\
Skills are instructions for particular kinds of work, kept in files, with scripts and references beside them. Before you begin \
something that one of these is for, read it with skill_view and follow it:";

impl Skills {
    /// Returns the section of the prompt that names the skills in use; none when
    /// there are none, or the settings take away the tool that reads them.
    pub fn prompt(&self) -> Option<String> {
        if !self.is_offered() {
            return None;
        }
        let skills = self.catalogue().skills;
        let used: Vec<_> = skills.iter().filter(|skill| skill.enabled).collect();
        if used.is_empty() {
            return None;
        }
        let mut text = INTRODUCTION.to_owned();
        let (mut named, mut length) = (0, text.len());
        for skill in used.iter().take(MOST) {
            let line = format!("\n- {}: {}", skill.name(), cut(&skill.about.description));
            length += line.len();
            if length > TOTAL {
                break;
            }
            text.push_str(&line);
            named += 1;
        }
        if named < used.len() {
            let left = used.len() - named;
            text.push_str("\n(and ");
            text.push_str(&left.to_string());
            text.push_str(" more, which skills_list names)");
        }
        Some(text)
    }
}

impl Skills {
    /// Reports whether the settings let the agent read skills.
    fn is_offered(&self) -> bool {
        let names = |key: &SettingKey<Names>| self.settings().get(key).map(|found| found.value);
        let has =
            |key: &SettingKey<Names>, name: &str| names(key).is_ok_and(|own| own.contains(name));
        let is_on = [ALL, TOOLSET].iter().any(|name| has(&vestal_agent::keys::TOOLSETS, name));
        is_on
            && !has(&vestal_agent::keys::AGENT_DISABLED_TOOLSETS, TOOLSET)
            && !has(&vestal_agent::keys::AGENT_DISABLED_TOOLS, "skill_view")
    }
}

fn cut(description: &str) -> String {
    match description.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", description[..at].trim_end()),
        None => description.to_owned(),
    }
}
