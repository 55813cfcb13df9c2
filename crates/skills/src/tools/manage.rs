//! `skill_manage`: writing down how something is done.

use std::collections::BTreeSet;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_agent::redact::Redactor;
use vestal_agent::tools::arguments::{BadArgument, NonEmptyString, parse, tool_spec};
use vestal_agent::{ApprovalRequest, Tool, ToolContext, ToolOutput};
use vestal_config::EnvName;
use vestal_model::ToolSpec;

use super::{TOOLSET, aside};
use crate::error::SkillError;
use crate::manage::{SkillChange, SkillChanged, SkillEdit};
use crate::skill::SkillName;
use crate::skills::Skills;

const DESCRIPTION: &str = "\
Creates and changes skills: instructions that later conversations find. Write one when you have found out how a kind of work is done \
here and it is likely to come up again, or when the user asks for it; fix one that turned out to be wrong. \
SKILL.md begins with front matter between lines of `---`: `name` (as the skill's), `description` (what it is for and when to use it, up \
to 1024 characters) and, where it needs secrets, `required_environment_variables` (a list of names, never values). \
Scripts and references go into files beside it.";

#[derive(Deserialize, JsonSchema)]
struct SkillManageArguments {
    /// create and edit take `content`, all of SKILL.md; patch replaces `old_string` by `new_string`.
    action: ManageAction,
    /// The skill: lowercase letters, digits and hyphens.
    name: NonEmptyString,
    /// For create, edit and `write_file`: all that is in the file.
    content: Option<String>,
    /// For create: a group to put it into.
    category: Option<String>,
    /// For `write_file`, `remove_file` and patch: a file, relative to the skill's folder. Absent in patch: SKILL.md.
    file: Option<String>,
    /// For patch: text that is there once.
    old_string: Option<String>,
    /// For patch: what takes its place.
    new_string: Option<String>,
    /// For patch: replaces every occurrence. Default false.
    #[serde(default)]
    replace_all: bool,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ManageAction {
    Create,
    Edit,
    Patch,
    Delete,
    WriteFile,
    RemoveFile,
}

#[derive(Debug, Clone)]
pub(crate) struct SkillManage {
    skills: Skills,
}

impl SkillManage {
    pub(crate) fn new(skills: Skills) -> Self {
        Self { skills }
    }
}

#[async_trait]
impl Tool for SkillManage {
    fn spec(&self) -> ToolSpec {
        tool_spec::<SkillManageArguments>("skill_manage", DESCRIPTION)
    }

    fn toolset(&self) -> &str {
        TOOLSET
    }

    fn is_for_children(&self) -> bool {
        false
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let edit = match read(arguments) {
            Ok(edit) => edit,
            Err(bad) => return bad.into(),
        };
        match self.carry_out(context, edit).await {
            Ok(result) => ToolOutput::json(&result),
            Err(error) => ToolOutput::error(error),
        }
    }
}

fn read(arguments: Value) -> Result<SkillEdit, BadArgument> {
    let arguments: SkillManageArguments = parse(arguments)?;
    let named = |text: &str| {
        SkillName::new(text.trim()).map_err(|error| BadArgument::new(error.to_string()))
    };
    let name = named(&arguments.name)?;
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let required =
        |name: &str, text: Option<String>| text.ok_or_else(|| BadArgument::missing(name));
    let unmasked = |name: &str, text: Option<String>| {
        let text = required(name, text)?;
        // What stands in the place of a secret would be written down as one.
        if Redactor::is_sentinel_in(&text) {
            let message = format!("`{name}` holds a masked secret; leave secrets out of skills");
            return Err(BadArgument::new(message));
        }
        Ok(text)
    };
    let content = arguments.content;
    let change = match arguments.action {
        ManageAction::Create => SkillChange::Create {
            content: unmasked("content", content)?,
            category: given(arguments.category).as_deref().map(named).transpose()?,
        },
        ManageAction::Edit => SkillChange::Replace { content: unmasked("content", content)? },
        ManageAction::Patch => SkillChange::Patch {
            file: given(arguments.file),
            old: required("old_string", arguments.old_string)?,
            new: unmasked("new_string", arguments.new_string)?,
            everywhere: arguments.replace_all,
        },
        ManageAction::Delete => SkillChange::Delete,
        ManageAction::WriteFile => SkillChange::WriteFile {
            file: required("file", given(arguments.file))?,
            content: unmasked("content", content)?,
        },
        ManageAction::RemoveFile => {
            SkillChange::RemoveFile { file: required("file", given(arguments.file))? }
        }
    };
    Ok(SkillEdit { name, change })
}

impl SkillManage {
    async fn carry_out(&self, context: &ToolContext, edit: SkillEdit) -> Result<Value, String> {
        let words = |error: SkillError| error.to_string();
        let done = match self.change(&edit, BTreeSet::new()).await.map_err(words)? {
            SkillChanged::Asks(names) => {
                ask(context, &edit, &names).await?;
                self.change(&edit, names.into_iter().collect()).await.map_err(words)?
            }
            done @ SkillChanged::Done { .. } => done,
        };
        let path = match done {
            SkillChanged::Done { path } => path,
            SkillChanged::Asks(_) => {
                return Err(
                    "the skill was changed by another process meanwhile; read it again".into()
                );
            }
        };
        self.skills.equip(context.sandbox.engine(), &context.redactor);
        let did = match edit.change {
            SkillChange::Create { .. } => "created",
            SkillChange::Replace { .. } | SkillChange::Patch { .. } => "changed",
            SkillChange::Delete => "deleted",
            SkillChange::WriteFile { .. } => "written",
            SkillChange::RemoveFile { .. } => "removed",
        };
        let mut result = json!({
            "done": did,
            "name": edit.name.as_str(),
            "path": path.display().to_string(),
        });
        if did != "deleted" {
            result["note"] =
                "the path is the host's; skill_view shows the sandbox what is there now".into();
        }
        Ok(result)
    }

    async fn change(
        &self,
        edit: &SkillEdit,
        allowed: BTreeSet<EnvName>,
    ) -> Result<SkillChanged, SkillError> {
        let (skills, edit) = (self.skills.clone(), edit.clone());
        aside(move || skills.change(&edit, &allowed)).await
    }
}

/// Asks whether a skill may be given variables of the user's. Otherwise what a
/// model was talked into writing would fetch secrets into its sandbox.
async fn ask(context: &ToolContext, edit: &SkillEdit, names: &[EnvName]) -> Result<(), String> {
    let names: Vec<&str> = names.iter().map(EnvName::as_str).collect();
    let names = names.join(", ");
    let request = ApprovalRequest {
        action: format!("forward {names} into the sandbox, for the skill {}", edit.name),
        reason: format!("the values of {names} become readable by every command in the sandbox"),
        pattern: format!("skill {} asks for {names}", edit.name),
        may_last: false,
    };
    let asked = context.guard.ask_person(context, "request for variables", &request).await;
    asked.map(drop).map_err(|refusal| {
        format!(
            "{} Nothing was written. Without required_environment_variables it can be; the user can add them \
             to the skill's SKILL.md by hand.",
            refusal.message
        )
    })
}
