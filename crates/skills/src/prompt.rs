//! What a model is told of skills when a conversation begins.

use vestal_agent::ALL;
use vestal_config::{Key, Names, keys};

use crate::skills::Skills;
use crate::tools::TOOLSET;

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
        let names = |key: &Key<Names>| self.settings().get(key).map(|found| found.value);
        let has = |key: &Key<Names>, name: &str| names(key).is_ok_and(|own| own.contains(name));
        let is_on = [ALL, TOOLSET].iter().any(|name| has(&keys::TOOLSETS, name));
        is_on
            && !has(&keys::AGENT_DISABLED_TOOLSETS, TOOLSET)
            && !has(&keys::AGENT_DISABLED_TOOLS, "skill_view")
    }
}

fn cut(description: &str) -> String {
    match description.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", description[..at].trim_end()),
        None => description.to_owned(),
    }
}
