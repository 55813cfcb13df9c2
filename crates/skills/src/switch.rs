//! Skills that are installed and not used.

use vestal_config::AnyKey as _;

use crate::error::SkillError;
use crate::keys;
use crate::skills::Skills;

/// A skill that was enabled or disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchedSkill {
    /// Its name.
    pub name: String,
    /// Whether it was not so before.
    pub is_changed: bool,
    /// Why that has no effect, if something overrides the setting.
    pub warning: Option<String>,
}

impl Skills {
    /// Has the agent use a skill, from its next look at them on.
    pub fn enable(&self, name: &str) -> Result<SwitchedSkill, SkillError> {
        let settings = self.settings().reload();
        let outcome = vestal_config::take_out(&settings, keys::SKILLS_DISABLED.name(), name)?;
        if !outcome.taken {
            // A name that was disabled may be one that is gone; any other has to be there.
            self.installed(name)?;
        }
        Ok(self.switched(name, outcome.taken, &outcome.set))
    }

    /// Has the agent not use a skill, which stays installed.
    pub fn disable(&self, name: &str) -> Result<SwitchedSkill, SkillError> {
        let settings = self.settings().reload();
        let skill = self.installed(name)?;
        let name = skill.name().as_str();
        let outcome = vestal_config::append(&settings, keys::SKILLS_DISABLED.name(), name)?;
        Ok(self.switched(name, outcome.added, &outcome.set))
    }

    fn switched(
        &self,
        name: &str,
        is_changed: bool,
        set: &vestal_config::SetOutcome,
    ) -> SwitchedSkill {
        // Its variables come and go with it.
        self.equip_again();
        let by = set.hidden_by.as_ref();
        let warning =
            by.map(|source| format!("it has no effect, because {source} overrides {}", set.name));
        SwitchedSkill { name: name.to_owned(), is_changed, warning }
    }
}
