//! `skill_view`: a skill's instructions, and the files it links to.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_agent::tools::arguments::{BadArgument, NonEmptyString, parse, tool_spec};
use vestal_agent::{Footprint, Tool, ToolContext, ToolOutput};
use vestal_model::ToolSpec;
use vestal_sandbox::{Error, Sandbox};

use super::{TOOLSET, aside};
use crate::catalogue::Survey;
use crate::error::SkillError;
use crate::path::{inner_path, open_file, within};
use crate::skill::{INSTRUCTIONS, MAX_FILE, Skill};
use crate::skills::Skills;

/// Files that are named in a result.
const MOST_NAMED: usize = 200;

const DESCRIPTION: &str = "\
Reads a skill: its instructions, its files, and where its folder is in the sandbox (read-only), so that its scripts can be \
run from there. With `file` it reads one of those files.";

#[derive(Deserialize, JsonSchema)]
struct SkillViewArguments {
    /// The skill, as `skills_list` names it.
    name: NonEmptyString,
    /// A file of the skill, relative to its folder. Absent: SKILL.md.
    file: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct SkillViewTool {
    skills: Skills,
}

impl SkillViewTool {
    pub(crate) fn new(skills: Skills) -> Self {
        Self { skills }
    }
}

#[async_trait]
impl Tool for SkillViewTool {
    fn spec(&self) -> ToolSpec {
        tool_spec::<SkillViewArguments>("skill_view", DESCRIPTION)
    }

    fn toolset(&self) -> &str {
        TOOLSET
    }

    fn footprint(&self, _: &Value) -> Footprint {
        Footprint::Reads
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let (name, file) = match read(arguments) {
            Ok(asked) => asked,
            Err(bad) => return bad.into(),
        };
        let seen = match file {
            Some(file) => self.file(&name, &file).await,
            None => self.instructions(context, &name).await,
        };
        match seen {
            Ok(result) => ToolOutput::json(&result),
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}

fn read(arguments: Value) -> Result<(String, Option<String>), BadArgument> {
    let SkillViewArguments { name, file } = parse(arguments)?;
    let name = name.trim().trim_start_matches('/').to_owned();
    let file = file.filter(|file| !file.trim().is_empty());
    Ok((name, file.filter(|file| file.trim() != INSTRUCTIONS)))
}

impl SkillViewTool {
    async fn instructions(&self, context: &ToolContext, name: &str) -> Result<Value, SkillError> {
        let (skills, name) = (self.skills.clone(), name.to_owned());
        let looked = aside(move || {
            let skill = skills.get(&name)?;
            let text = skills.read_instructions(&skill)?;
            let survey = skills.survey(&skill);
            Ok::<_, SkillError>((skill, text, survey))
        });
        let (skill, content, survey) = looked.await?;
        // It may have been installed, or been given variables, since the start.
        self.skills.equip(context.sandbox.engine(), &context.redactor);
        let mut result = json!({
            "name": skill.name().as_str(),
            "description": skill.about.description,
            "category": skill.category,
            "content": content,
        });
        match survey {
            Ok(survey) if survey.has_more_than_instructions() => {
                result["files"] = named(&survey);
                add_path(context, &skill, &mut result).await;
            }
            // Without other files there is nothing to be found in the sandbox, and
            // no reason to start one.
            Ok(_) => {}
            Err(error) => {
                let problem = format!("its files cannot be shown: {error}");
                result["path_problem"] = problem.into();
            }
        }
        let needs = self.skills.needs(&skill);
        if !needs.is_empty() {
            let variable = |need: &crate::Need| json!({"name": need.variable.name.as_str(), "state": need.state.as_str()});
            result["variables"] = needs.iter().map(variable).collect();
        }
        let unmet: Vec<String> =
            needs.iter().filter(|need| need.is_unmet()).map(crate::Need::in_words).collect();
        if !unmet.is_empty() {
            result["missing"] = unmet.into();
            result["hint"] =
                "tell the user what is missing, and go on with what works without it".into();
        }
        Ok(result)
    }

    async fn file(&self, name: &str, file: &str) -> Result<Value, SkillError> {
        let (skills, name, file) = (self.skills.clone(), name.to_owned(), file.trim().to_owned());
        aside(move || {
            let skill = skills.get(&name)?;
            let inner = inner_path(&file)?;
            let content = read_file(&skill, &inner)?;
            let mut result = json!({"name": name, "file": inner.display().to_string()});
            match content {
                ViewContent::Text(text) => result["content"] = text.into(),
                ViewContent::Bytes(bytes) => {
                    let words = "it is not text; use it by its path in the sandbox, which \
                                 skill_view without `file` tells";
                    result["bytes"] = bytes.into();
                    result["note"] = words.into();
                }
            }
            Ok(result)
        })
        .await
    }
}

/// What is in a file of a skill.
enum ViewContent {
    Text(String),
    /// So many bytes that are not text.
    Bytes(u64),
}

fn read_file(skill: &Skill, inner: &Path) -> Result<ViewContent, SkillError> {
    let path = within(skill.dir(), inner)?;
    let failed = || SkillError::io("read", &path);
    let file = match open_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let (name, file) = (skill.name().to_string(), inner.display().to_string());
            return Err(SkillError::NoFile { name, file });
        }
        opened => opened.map_err(failed())?,
    };
    let length = file.metadata().map_err(failed())?.len();
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed())?;
    if bytes.len() as u64 > MAX_FILE {
        let text = format!(
            "{} is larger than {} KiB; read parts of it by its path in the sandbox",
            inner.display(),
            MAX_FILE >> 10
        );
        return Err(SkillError::TooLarge(text));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => ViewContent::Text(text),
        _ => ViewContent::Bytes(length),
    })
}

fn named(survey: &Survey) -> Value {
    let others = survey.files.iter().filter(|file| file.path != Path::new(INSTRUCTIONS));
    let mut names: Vec<String> =
        others.clone().take(MOST_NAMED).map(|file| file.path.display().to_string()).collect();
    let left = others.count().saturating_sub(MOST_NAMED);
    if left > 0 {
        names.push(format!("… and {left} more"));
    }
    names.into()
}

/// Shows the skill's files to a sandbox, and returns where they are in it.
pub(crate) async fn show(sandbox: &Sandbox, skill: &Skill) -> Result<PathBuf, Error> {
    sandbox.publish(&format!("skills/{}", skill.name()), skill.dir()).await
}

/// Shows the skill's files to the sandbox and says where they are. That they
/// cannot be shown keeps nobody from reading the instructions.
async fn add_path(context: &ToolContext, skill: &Skill, result: &mut Value) {
    let shown = async {
        let sandbox = context.sandbox.attach(&context.events).await?;
        show(&sandbox, skill).await
    };
    match shown.await {
        Ok(path) => result["path"] = path.display().to_string().into(),
        Err(error) => {
            let problem = format!("its files cannot be shown to the sandbox: {error}");
            result["path_problem"] = problem.into();
        }
    }
}
