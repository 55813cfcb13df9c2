//! How skills are shown.

use serde::Serialize;
use vestal_skills::{Broken, FileInfo, Need, Skill, Survey};

use crate::console::text;

/// A skill in order, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct SkillView {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) category: Option<String>,
    pub(super) version: Option<String>,
    pub(super) license: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) enabled: bool,
    pub(super) path: String,
    pub(super) variables: Vec<VariableView>,
    /// Variables that it needs and does not have.
    pub(super) missing: Vec<String>,
}

/// A variable that a skill asks for. Its value is nobody's business.
#[derive(Debug, Serialize)]
pub(super) struct VariableView {
    pub(super) name: String,
    /// `set`, `missing`, `withheld` or `not forwarded`.
    pub(super) state: &'static str,
    pub(super) optional: bool,
    pub(super) help: Option<String>,
    pub(super) required_for: Option<String>,
}

/// A skill that cannot be used.
#[derive(Debug, Serialize)]
pub(super) struct BrokenView {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) line: Option<usize>,
    pub(super) reason: String,
    pub(super) advice: String,
}

/// A file of a skill.
#[derive(Debug, Serialize)]
pub(super) struct FileView {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) script: bool,
}

impl SkillView {
    pub(super) fn of(skill: &Skill, needs: &[Need]) -> Self {
        let about = &skill.about;
        let unmet = needs.iter().filter(|need| need.is_unmet());
        Self {
            name: about.name.to_string(),
            description: about.description.clone(),
            category: skill.category.clone(),
            version: about.version.clone(),
            license: about.license.clone(),
            tags: about.tags.clone(),
            enabled: skill.enabled,
            path: skill.dir.display().to_string(),
            variables: needs.iter().map(VariableView::of).collect(),
            missing: unmet.map(|need| need.variable.name.to_string()).collect(),
        }
    }
}

impl VariableView {
    pub(super) fn of(need: &Need) -> Self {
        Self {
            name: need.variable.name.to_string(),
            state: need.state.as_str(),
            optional: need.variable.optional,
            help: need.variable.help.clone(),
            required_for: need.variable.required_for.clone(),
        }
    }
}

impl From<&Broken> for BrokenView {
    fn from(broken: &Broken) -> Self {
        Self {
            name: broken.name.clone(),
            path: broken.path.display().to_string(),
            line: broken.line,
            reason: broken.reason.clone(),
            advice: broken.advice.clone(),
        }
    }
}

impl From<&FileInfo> for FileView {
    fn from(file: &FileInfo) -> Self {
        Self { path: file.path.display().to_string(), bytes: file.bytes, script: file.is_script }
    }
}

/// Returns how much a skill is, in words.
pub(super) fn amount(survey: &Survey) -> String {
    let files = text::count(survey.files.len() as u64, "file");
    format!("{files}, {}", text::bytes(survey.bytes))
}
