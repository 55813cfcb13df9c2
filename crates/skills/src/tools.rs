//! What the agent does with skills, one tool each.

mod manage;
mod view;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_agent::tools::arguments::{parse, tool_spec};
use vestal_agent::{Footprint, Tool, ToolContext, ToolOutput};
use vestal_model::ToolSpec;

use crate::skills::Skills;

pub(crate) use manage::SkillManage;
pub(crate) use view::{SkillViewTool, show};

/// The group that all of them are enabled and disabled with.
pub(crate) const TOOLSET: &str = "skills";

/// Does something that waits for the disk, where that keeps nobody else waiting.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

const DESCRIPTION: &str = "\
Lists the skills by name, with what each is for. A skill is a set of instructions for a kind of work, kept in files. \
Read it with skill_view before you do that work.";

#[derive(Deserialize, JsonSchema)]
struct SkillsListArguments {
    /// Only skills of this category.
    category: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct SkillsList {
    skills: Skills,
}

impl SkillsList {
    pub(crate) fn new(skills: Skills) -> Self {
        Self { skills }
    }
}

#[async_trait]
impl Tool for SkillsList {
    fn spec(&self) -> ToolSpec {
        tool_spec::<SkillsListArguments>("skills_list", DESCRIPTION)
    }

    fn toolset(&self) -> &str {
        TOOLSET
    }

    fn footprint(&self, _: &Value) -> Footprint {
        Footprint::Reads
    }

    async fn call(&self, _: &ToolContext, arguments: Value) -> ToolOutput {
        let category = match parse(arguments) {
            Ok(SkillsListArguments { category }) => {
                category.filter(|category| !category.trim().is_empty())
            }
            Err(bad) => return bad.into(),
        };
        let skills = self.skills.clone();
        let catalogue = aside(move || skills.catalogue()).await;
        let is_wanted = |own: Option<&String>| {
            category.as_deref().is_none_or(|wanted| own.is_some_and(|own| own == wanted.trim()))
        };
        let listed: Vec<Value> = catalogue
            .skills
            .iter()
            .filter(|skill| skill.enabled && is_wanted(skill.category.as_ref()))
            .map(|skill| {
                json!({
                    "name": skill.name().as_str(),
                    "description": skill.about.description,
                    "category": skill.category,
                })
            })
            .collect();
        let broken: Vec<Value> = catalogue
            .broken
            .iter()
            .map(|broken| json!({"name": broken.name, "problem": broken.to_string()}))
            .collect();
        let mut result = json!({"skills": listed});
        if !broken.is_empty() {
            result["broken"] = broken.into();
        }
        ToolOutput::json(&result)
    }
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
