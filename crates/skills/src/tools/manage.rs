//! `skill_manage`: writing down how something is done.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_agent::redact::Redactor;
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_agent::{ApprovalRequest, Tool, ToolContext, ToolOutput};
use vestal_config::EnvName;
use vestal_model::ToolSpec;

use super::{TOOLSET, aside};
use crate::error::SkillError;
use crate::manage::{Change, Changed, Edit};
use crate::skill::SkillName;
use crate::skills::Skills;

const DESCRIPTION: &str = "\
Makes and changes skills: instructions that later conversations find. Write one down when you have found out how a kind of work is done \
here and it is likely to come up again, or when the user asks for it; mend one that turned out wrong. \
SKILL.md begins with front matter between lines of `---`: `name` (as the skill's), `description` (what it is for and when to use it, up \
to 1024 characters) and, where it needs secrets, `required_environment_variables` (a list of names, never values). \
Scripts and references go into files beside it.";

/// The tool.
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
        ToolSpec {
            name: "skill_manage".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "action": {
                        "type": "string",
                        "enum": ["create", "edit", "patch", "delete", "write_file", "remove_file"],
                        "description": "create and edit take `content`, all of SKILL.md; patch replaces `old_string` by `new_string`."
                    },
                    "name": {"type": "string", "description": "The skill: lowercase letters, digits and hyphens."},
                    "content": {"type": "string", "description": "For create, edit and write_file: all that is in the file."},
                    "category": {"type": "string", "description": "For create: a group to put it into."},
                    "file": {"type": "string", "description": "For write_file, remove_file and patch: a file, relative to the skill's folder. Absent in patch: SKILL.md."},
                    "old_string": {"type": "string", "description": "For patch: text that is there once."},
                    "new_string": {"type": "string", "description": "For patch: what takes its place."},
                    "replace_all": {"type": "boolean", "description": "For patch: replaces every occurrence. Default false."}
                },
                "required": ["action", "name"]
            }),
        }
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

fn read(arguments: Value) -> Result<Edit, BadArgument> {
    let arguments = Arguments::new(arguments)?;
    let named = |text: String| {
        SkillName::new(text.trim()).map_err(|error| BadArgument::new(error.to_string()))
    };
    let name = named(arguments.words("name")?)?;
    let content = |name: &str| -> Result<String, BadArgument> {
        let content = arguments.text(name)?;
        // What stands in the place of a secret would be written down as one.
        if Redactor::is_sentinel_in(&content) {
            let text = format!("`{name}` holds a masked secret; leave secrets out of skills");
            return Err(BadArgument::new(text));
        }
        Ok(content)
    };
    let change = match arguments.words("action")?.trim() {
        "create" => Change::Create {
            content: content("content")?,
            category: arguments
                .optional_text("category")?
                .filter(|category| !category.trim().is_empty())
                .map(named)
                .transpose()?,
        },
        "edit" => Change::Replace { content: content("content")? },
        "patch" => Change::Patch {
            file: arguments.optional_text("file")?.filter(|file| !file.trim().is_empty()),
            old: arguments.text("old_string")?,
            new: content("new_string")?,
            everywhere: arguments.flag("replace_all")?,
        },
        "delete" => Change::Delete,
        "write_file" => {
            Change::WriteFile { file: arguments.words("file")?, content: content("content")? }
        }
        "remove_file" => Change::RemoveFile { file: arguments.words("file")? },
        other => {
            return Err(BadArgument::new(format!(
                "`action` must be create, edit, patch, delete, write_file or remove_file, got {other:?}"
            )));
        }
    };
    Ok(Edit { name, change })
}

impl SkillManage {
    async fn carry_out(&self, context: &ToolContext, edit: Edit) -> Result<Value, String> {
        let words = |error: SkillError| error.to_string();
        let done = match self.change(&edit, BTreeSet::new()).await.map_err(words)? {
            Changed::Asks(names) => {
                ask(context, &edit, &names).await?;
                self.change(&edit, names.into_iter().collect()).await.map_err(words)?
            }
            done @ Changed::Done { .. } => done,
        };
        let path = match done {
            Changed::Done { path } => path,
            Changed::Asks(_) => {
                return Err("the skill was changed by somebody else meanwhile; look again".into());
            }
        };
        self.skills.equip(context.workshop.engine(), &context.redactor);
        let did = match edit.change {
            Change::Create { .. } => "created",
            Change::Replace { .. } | Change::Patch { .. } => "changed",
            Change::Delete => "deleted",
            Change::WriteFile { .. } => "written",
            Change::RemoveFile { .. } => "removed",
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

    async fn change(&self, edit: &Edit, allowed: BTreeSet<EnvName>) -> Result<Changed, SkillError> {
        let (skills, edit) = (self.skills.clone(), edit.clone());
        aside(move || skills.change(&edit, &allowed)).await
    }
}

/// Asks whether a skill may be given variables of the user's. Otherwise what a
/// model was talked into writing would fetch secrets into its sandbox.
async fn ask(context: &ToolContext, edit: &Edit, names: &[EnvName]) -> Result<(), String> {
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
