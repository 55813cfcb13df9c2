use std::collections::VecDeque;
use std::fs;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_agent::{
    Approval, ApprovalRequest, ConversationSandbox, Human, NoHuman, Question, Tool, ToolContext,
    ToolSource,
};
use vestal_sandbox::{Command, Engine, FilesOnRemoval, Overrides, TaskName};

use crate::skills::{Skills, from_settings};
use crate::testing::{SkillHome, text};

/// Somebody who has these answers, and remembers what was asked.
#[derive(Default)]
struct Answers {
    answers: Mutex<VecDeque<Approval>>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Human for Answers {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        self.asked.lock().unwrap().push(request.action.clone());
        self.answers.lock().unwrap().pop_front().unwrap_or(Approval::Deny(None))
    }

    async fn clarify(&self, _: &Question) -> Option<String> {
        None
    }
}

/// A home with skills and a sandbox on backend `local`.
struct SkillsFixture {
    home: SkillHome,
    skills: Skills,
    engine: Engine,
    context: ToolContext,
}

impl SkillsFixture {
    fn new(env: &[(&str, &str)]) -> Self {
        Self::with_human(env, Arc::new(NoHuman))
    }

    fn with_human(env: &[(&str, &str)], human: Arc<dyn Human>) -> Self {
        let home = SkillHome::new();
        let cwd = format!("terminal.cwd={}", home.path("").display());
        let engine = Engine::open(home.settings(env, &["terminal.backend=local", &cwd])).unwrap();
        let skills = from_settings(engine.settings());
        let sandbox = ConversationSandbox::new(
            engine.clone(),
            TaskName::default_task(),
            Overrides::default(),
            "c-test",
        );
        let context = ToolContext::new("20261115-103001-k3f9ab".parse().unwrap(), sandbox);
        let context = ToolContext { human, ..context };
        Self { home, skills, engine, context }
    }

    async fn call(&self, name: &str, arguments: Value) -> Value {
        let tools = self.skills.tools();
        let tool: &Arc<dyn Tool> = tools.iter().find(|tool| tool.spec().name == name).unwrap();
        serde_json::from_str(&tool.call(&self.context, arguments).await.content).unwrap()
    }

    async fn run(&self, text: &str) -> String {
        let sandbox = self.context.sandbox.attach(&self.context.events).await.unwrap();
        sandbox.run(Command::shell(text)).await.unwrap().stdout.text()
    }

    async fn finish(self) {
        drop(self.context);
        match Box::pin(self.engine.remove(&TaskName::default_task(), FilesOnRemoval::Remove)).await
        {
            Ok(_) | Err(vestal_sandbox::Error::NoSandbox { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn the_agent_goes_from_the_list_to_a_skill_to_its_files() {
    let stage = SkillsFixture::new(&[]);
    stage.home.skill("office/forms", "").skill("plain", "");
    stage.home.put("skills/office/forms/scripts/fill.sh", "#!/bin/sh\necho filled by $0\n");
    stage.home.put("skills/office/forms/data.bin", [0xff, 0, 1]).put("skills/bad/SKILL.md", "x");
    let list = stage.call("skills_list", json!({})).await;
    let entry = json!({"name": "forms", "description": "About forms.", "category": "office"});
    assert_eq!(list["skills"][0], entry);
    assert_eq!(list["skills"].as_array().unwrap().len(), 2);
    assert!(list["broken"][0]["problem"].as_str().unwrap().contains("no front matter"));
    let office = stage.call("skills_list", json!({"category": "office"})).await;
    assert_eq!(office["skills"], json!([entry]));

    let view = stage.call("skill_view", json!({"name": "/forms"})).await;
    assert_eq!(view["content"], text("forms", ""));
    assert_eq!(view["files"], json!(["data.bin", "scripts/fill.sh"]));
    let path = view["path"].as_str().unwrap();
    let printed = stage.run(&format!("{path}/scripts/fill.sh")).await;
    assert_eq!(printed, format!("filled by {path}/scripts/fill.sh\n"));

    let file = stage.call("skill_view", json!({"name": "forms", "file": "scripts/fill.sh"})).await;
    assert!(file["content"].as_str().unwrap().starts_with("#!/bin/sh"));
    let bytes = stage.call("skill_view", json!({"name": "forms", "file": "data.bin"})).await;
    assert_eq!((bytes["bytes"].as_u64(), bytes.get("content")), (Some(3), None));
    for (name, file, reason) in [
        ("forms", "../../plain/SKILL.md", "leads out"),
        ("forms", "/etc/passwd", "must be relative"),
        ("forms", "none.md", "has no file"),
        ("form", "", "is forms meant?"),
        ("bad", "", "skill bad is broken"),
        ("../x", "", "there is no skill"),
    ] {
        let error = stage.call("skill_view", json!({"name": name, "file": file})).await;
        assert!(error["error"].as_str().unwrap().contains(reason), "{error}");
    }
    stage.finish().await;
}

#[tokio::test]
async fn a_skill_without_files_starts_no_sandbox() {
    let stage = SkillsFixture::new(&[]);
    stage.home.skill("plain", "");
    let view = stage.call("skill_view", json!({"name": "plain"})).await;
    assert_eq!((view.get("path"), view.get("files")), (None, None));
    assert!(stage.context.sandbox.attached().is_none());
    stage.finish().await;
}

#[tokio::test]
async fn what_cannot_be_shown_keeps_nobody_from_reading() {
    let stage = SkillsFixture::new(&[]);
    stage.home.skill("odd", "").put("skills/odd/file", "x");
    std::os::unix::fs::symlink("/etc/passwd", stage.home.path("skills/odd/leak")).unwrap();
    let view = stage.call("skill_view", json!({"name": "odd"})).await;
    assert!(view["content"].as_str().unwrap().contains("How odd is done."));
    assert!(view["path_problem"].as_str().unwrap().contains("leak is a link"), "{view}");
    let leak = stage.call("skill_view", json!({"name": "odd", "file": "leak"})).await;
    assert!(leak["error"].as_str().unwrap().contains("a link"), "{leak}");
    stage.finish().await;
}

#[tokio::test]
async fn variables_reach_commands_and_missing_ones_are_reported() {
    let secret = "a-value-nobody-should-see";
    let stage =
        SkillsFixture::new(&[("TAVILY_API_KEY", secret), ("OPENAI_API_KEY", "sk-never-given-out")]);
    stage.home.put(
        "skills/search/SKILL.md",
        text(
            "search",
            "required_environment_variables: [TAVILY_API_KEY, OPENAI_API_KEY, {name: PLACE, \
             required_for: maps}, {name: SPARE, optional: true}]\n",
        ),
    );
    assert_eq!(stage.run("echo ${#TAVILY_API_KEY}").await, "0\n");
    let view = stage.call("skill_view", json!({"name": "search"})).await;
    let states: Vec<_> = view["variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["set", "withheld", "missing", "missing"]);
    let missing = view["missing"].to_string();
    assert!(missing.contains("PLACE is not set; put PLACE=… into the profile's .env (for maps)"));
    assert!(missing.contains("terminal.docker_forward_env") && !missing.contains("SPARE"));
    assert!(!view.to_string().contains(secret), "{view}");
    let printed = stage.run("echo ${#TAVILY_API_KEY} ${OPENAI_API_KEY-none}").await;
    assert_eq!(printed, format!("{} none\n", secret.len()));
    assert!(!stage.context.redactor.redact(secret).contains(secret), "it is known as a secret");
    fs::remove_dir_all(stage.home.path("skills/search")).unwrap();
    stage.skills.equip(&stage.engine, &stage.context.redactor);
    assert_eq!(stage.run("echo ${#TAVILY_API_KEY}").await, "0\n");
    stage.finish().await;
}

#[tokio::test]
async fn each_turn_has_what_the_skills_in_use_ask_for_when_it_begins() {
    let stage = SkillsFixture::new(&[("TAVILY_API_KEY", "a-token-of-the-user")]);
    stage.skills.equip(&stage.engine, &stage.context.redactor);
    let begin_turn = || ToolSource::take_notices(&stage.skills);
    let given = "echo ${#TAVILY_API_KEY}";
    assert_eq!(stage.run(given).await, "0\n");
    stage.home.skill("one", "required_environment_variables: [TAVILY_API_KEY]\n");
    begin_turn();
    assert_eq!(stage.run(given).await, "19\n");
    assert!(!stage.context.redactor.redact("a-token-of-the-user").contains("token-of"));
    stage.home.put("config.yaml", "skills: {disabled: [one]}\n");
    begin_turn();
    assert_eq!(stage.run(given).await, "0\n");
    stage.finish().await;
}

#[tokio::test]
async fn a_skill_that_work_asks_for_is_opened_with_its_files() {
    let stage = SkillsFixture::new(&[]);
    stage.home.skill("plain", "").skill("go", "").put("skills/go/run", "#!/bin/sh\necho went\n");
    let sandbox = stage.context.sandbox.attach(&stage.context.events).await.unwrap();
    let printed = stage.skills.open_in(&sandbox, "/plain").await.unwrap();
    assert_eq!(printed, "Use the skill plain, which says:\n\nHow plain is done.");
    let printed = stage.skills.open_in(&sandbox, "go").await.unwrap();
    let (_, path) = printed.split_once("(Its files are in ").unwrap();
    let path = path.strip_suffix(", read-only.)").unwrap();
    assert_eq!(stage.run(&format!("{path}/run")).await, "went\n");
    let error = stage.skills.open_in(&sandbox, "gone").await.unwrap_err();
    assert!(error.to_string().starts_with("there is no skill \"gone\""), "{error}");
    std::os::unix::fs::symlink("/etc/passwd", stage.home.path("skills/go/leak")).unwrap();
    let printed = stage.skills.open_in(&sandbox, "go").await.unwrap();
    assert!(printed.contains("How go is done.") && printed.contains("leak is a link"), "{printed}");
    drop(sandbox);
    stage.finish().await;
}

#[tokio::test]
async fn the_agent_writes_skills_that_the_next_look_finds() {
    let stage = SkillsFixture::new(&[]);
    let content = text("deploy", "");
    let made = json!({"action": "create", "name": "deploy", "content": content, "category": "ops"});
    assert_eq!(stage.call("skill_manage", made).await["done"], "created");
    let file = json!({"action": "write_file", "name": "deploy", "file": "scripts/go", "content": "#!/bin/sh\necho 1\n"});
    assert_eq!(stage.call("skill_manage", file).await["done"], "written");
    let view = stage.call("skill_view", json!({"name": "deploy"})).await;
    let run = format!("{}/scripts/go", view["path"].as_str().unwrap());
    assert_eq!(stage.run(&run).await, "1\n");
    let patch = json!({"action": "patch", "name": "deploy", "file": "scripts/go", "old_string": "1", "new_string": "2"});
    assert_eq!(stage.call("skill_manage", patch).await["done"], "changed");
    assert_eq!(stage.run(&run).await, "1\n", "what the sandbox is shown changes when it is viewed");
    stage.call("skill_view", json!({"name": "deploy"})).await;
    assert_eq!(stage.run(&run).await, "2\n");
    let gone = json!({"action": "delete", "name": "deploy"});
    assert_eq!(stage.call("skill_manage", gone).await["done"], "deleted");
    assert_eq!(stage.call("skills_list", json!({})).await, json!({"skills": []}));
    for (arguments, reason) in [
        (json!({"action": "burn", "name": "x"}), "`action` must be"),
        (
            json!({"action": "create", "name": "X Y", "content": ""}),
            "is not a valid name for a skill",
        ),
        (json!({"action": "create", "name": "x"}), "`content` is required"),
        (json!({"action": "create", "name": "x", "content": "no"}), "no front matter"),
        (json!({"action": "delete", "name": "none"}), "there is no skill"),
        (json!([]), "must be an object"),
    ] {
        let error = stage.call("skill_manage", arguments).await;
        assert!(error["error"].as_str().unwrap().contains(reason), "{error}");
    }
    stage.finish().await;
}

#[tokio::test]
async fn a_skill_of_the_agents_gets_variables_only_with_a_persons_word() {
    let asks = text("spy", "required_environment_variables: [TAVILY_API_KEY]\n");
    let made = json!({"action": "create", "name": "spy", "content": asks});
    let nobody = SkillsFixture::new(&[("TAVILY_API_KEY", "a-token-of-the-user")]);
    nobody.context.guard.set_yolo(true);
    let refused = nobody.call("skill_manage", made.clone()).await;
    assert!(refused["error"].as_str().unwrap().contains("no user is available"), "{refused}");
    assert_eq!(nobody.home.names(), Vec::<String>::new());
    nobody.finish().await;

    let person = Arc::new(Answers::default());
    let answers = [Approval::Deny(Some("no".into())), Approval::Once];
    person.answers.lock().unwrap().extend(answers);
    let human: Arc<dyn Human> = Arc::clone(&person) as Arc<dyn Human>;
    let stage = SkillsFixture::with_human(&[("TAVILY_API_KEY", "a-token-of-the-user")], human);
    let denied = stage.call("skill_manage", made.clone()).await;
    assert!(denied["error"].as_str().unwrap().contains("Nothing was written"), "{denied}");
    assert_eq!(stage.home.names(), Vec::<String>::new());
    assert_eq!(stage.run("echo ${#TAVILY_API_KEY}").await, "0\n");
    assert_eq!(stage.call("skill_manage", made).await["done"], "created");
    let asked = person.asked.lock().unwrap().clone();
    assert_eq!(asked, ["forward TAVILY_API_KEY into the sandbox, for the skill spy"; 2]);
    assert_eq!(stage.run("echo ${#TAVILY_API_KEY}").await, "19\n");
    stage.finish().await;
}
