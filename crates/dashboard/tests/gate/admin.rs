//! Settings, keys and what else an operator manages, asked over real connections.

use serde_json::{Value, json};
use vestal_dashboard::gate::Right;

use crate::support::DashboardFixture;

const CONFIG: &str =
    "# mine\nmodel:\n  api_key: sk-of-the-model # not yours\nagent:\n  max_turns: 7\n";

async fn fixture() -> (DashboardFixture, String) {
    let fixture = DashboardFixture::start_with_config(CONFIG, "WORK_KEY=sk-of-work\n").await;
    let operator = fixture.login(Right::Operator).await;
    (fixture, operator)
}

fn config(fixture: &DashboardFixture) -> String {
    std::fs::read_to_string(fixture.home.join("config.yaml")).unwrap()
}

async fn post(fixture: &DashboardFixture, cookie: &str, path: &str, body: &Value) -> (u16, Value) {
    let answer = fixture.post(path, body).cookie(cookie).send().await;
    (answer.status, answer.json())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_of_a_page_has_a_secret_in_it_but_that_of_asking_for_one() {
    let (fixture, operator) = fixture().await;
    let pages = ["/api/settings", "/api/settings/text", "/api/keys", "/api/mcp", "/api/profiles"];
    for path in pages {
        let answer = fixture.get(path).cookie(&operator).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(!answer.body.contains("sk-of-"), "{path}");
    }
    let viewer = fixture.login(Right::Viewer).await;
    let text = fixture.get("/api/settings/text").cookie(&viewer).send().await;
    assert_eq!(text.status, 403, "comments may say anything");
    let reveal = json!({ "name": "WORK_KEY" });
    assert_eq!(post(&fixture, &viewer, "/api/keys/reveal", &reveal).await.0, 403);
    let (status, shown) = post(&fixture, &operator, "/api/keys/reveal", &reveal).await;
    assert_eq!((status, &shown["value"]), (200, &json!("sk-of-work")));
    // The environment of this process is not the profile's.
    let (status, _) =
        post(&fixture, &operator, "/api/keys/reveal", &json!({ "name": "HOME" })).await;
    assert_eq!(status, 404);
    let mut refused = 0;
    for _ in 0..8 {
        refused += u32::from(post(&fixture, &operator, "/api/keys/reveal", &reveal).await.0 == 429);
    }
    assert_eq!(refused, 5, "a script that looks at all keys is stopped");
    let log = std::fs::read_to_string(fixture.home.join("logs/dashboard-audit.log")).unwrap();
    let revealed: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["event"] == "reveal")
        .collect();
    assert_eq!(revealed.len(), 10);
    assert_eq!(
        (&revealed[0]["request"], &revealed[0]["who"]),
        (&json!("WORK_KEY of default"), &json!("link"))
    );
    assert!(!log.contains("sk-of-"), "{log}");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_is_checked_before_it_is_written_and_comments_stay() {
    let (fixture, operator) = fixture().await;
    let ask = async |path: &str, body: Value| post(&fixture, &operator, path, &body).await;
    let wrong = json!({ "key": "agent.max_turns", "value": "many" });
    let (status, checked) = ask("/api/settings/check", wrong.clone()).await;
    assert_eq!(status, 200);
    assert!(checked["problem"].as_str().unwrap().contains("agent.max_turns"), "{checked}");
    assert_eq!(ask("/api/settings/set", wrong).await.0, 400);
    let masked = json!({ "key": "model.api_key", "value": "****" });
    assert_eq!(ask("/api/settings/set", masked).await.0, 400);
    assert_eq!(config(&fixture), CONFIG);
    let (status, changed) =
        ask("/api/settings/set", json!({ "key": "agent.max_turns", "value": "9" })).await;
    assert_eq!((status, &changed["field"]["value"]), (200, &json!(9)), "{changed}");
    assert_eq!(config(&fixture), CONFIG.replace("max_turns: 7", "max_turns: 9"));
    let (_, reset) = ask("/api/settings/unset", json!({ "key": "agent.max_turns" })).await;
    assert_eq!((&reset["changed"], &reset["field"]["in_file"]), (&json!(true), &json!(false)));
    assert!(
        config(&fixture).starts_with("# mine\nmodel:\n  api_key: sk-of-the-model # not yours\n")
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_is_written_over_what_was_read_and_nothing_else() {
    let (fixture, operator) = fixture().await;
    let text = fixture.get("/api/settings/text").cookie(&operator).send().await.json();
    let shown = text["text"].as_str().unwrap();
    assert_eq!(shown, CONFIG.replace("sk-of-the-model", "<secret 1>"));
    let edited = shown.replace("max_turns: 7", "max_turns: 8 # more");
    let body = |revision: &Value, check: bool| json!({ "revision": revision, "text": edited, "check": check });
    let old = text["revision"].clone();
    let (status, checked) =
        post(&fixture, &operator, "/api/settings/text", &body(&old, true)).await;
    assert_eq!((status, &checked["now"]), (200, &Value::Null), "{checked}");
    assert_eq!(config(&fixture), CONFIG, "it was only looked at");
    let (status, written) =
        post(&fixture, &operator, "/api/settings/text", &body(&old, false)).await;
    assert_eq!(status, 200, "{written}");
    assert_eq!(config(&fixture), CONFIG.replace("max_turns: 7", "max_turns: 8 # more"));
    let (status, late) = post(&fixture, &operator, "/api/settings/text", &body(&old, false)).await;
    assert_eq!((status, &late["error"]), (409, &json!("changed")), "{late}");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_put_in_replaced_and_taken_out() {
    let (fixture, operator) = fixture().await;
    let dotenv = || std::fs::read_to_string(fixture.home.join(".env")).unwrap();
    let ask = async |path: &str, body: Value| post(&fixture, &operator, path, &body).await;
    let (status, listed) =
        ask("/api/keys/set", json!({ "name": "OPENAI_API_KEY", "value": " sk-new \n" })).await;
    assert_eq!(status, 200, "{listed}");
    assert_eq!(dotenv(), "WORK_KEY=sk-of-work\nOPENAI_API_KEY=sk-new\n");
    let keys = listed["keys"].as_array().unwrap();
    let openai = keys.iter().find(|key| key["name"] == "OPENAI_API_KEY").unwrap();
    let (what, address) = (&openai["uses"][0]["what"], &openai["uses"][0]["address"]);
    assert_eq!((what, address), (&json!("openai"), &json!("https://api.openai.com/v1")));
    let two = json!({ "name": "WORK_KEY", "value": "a\nB=sk-b" });
    let (status, refused) = ask("/api/keys/set", two).await;
    assert_eq!(status, 400);
    assert!(!refused.to_string().contains("sk-b"), "{refused}");
    assert_eq!(ask("/api/keys/set", json!({ "name": "A B", "value": "x" })).await.0, 400);
    assert_eq!(ask("/api/keys/remove", json!({ "name": "WORK_KEY" })).await.0, 200);
    assert_eq!(ask("/api/keys/remove", json!({ "name": "WORK_KEY" })).await.0, 404);
    assert_eq!(dotenv(), "OPENAI_API_KEY=sk-new\n");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_is_made_changed_paused_and_removed() {
    let (fixture, operator) = fixture().await;
    let ask = async |path: &str, body: Value| post(&fixture, &operator, path, &body).await;
    let wrong = json!({ "schedule": "every now and then", "prompt": "x" });
    assert_eq!(ask("/api/schedules/default", wrong).await.0, 400);
    let new = json!({ "schedule": "every 2h", "prompt": "are the mirrors up?", "name": "mirrors" });
    let (status, made) = ask("/api/schedules/default", new).await;
    assert_eq!((status, &made["state"]), (200, &json!("active")), "{made}");
    let path = format!("/api/schedules/default/{}", made["id"].as_str().unwrap());
    let edit = json!({ "schedule": "0 9 * * 1-5", "model": null });
    let (status, edited) = ask(&format!("{path}/edit"), edit).await;
    assert_eq!((status, &edited["schedule"]), (200, &json!("0 9 * * 1-5")), "{edited}");
    assert_eq!(ask(&format!("{path}/pause"), json!({})).await.1["state"], "paused");
    assert_eq!(ask(&format!("{path}/resume"), json!({})).await.1["state"], "active");
    let (status, refused) = ask(&format!("{path}/run"), json!({})).await;
    assert_eq!((status, &refused["advice"]), (409, &json!("no gateway runs")), "{refused}");
    let page = fixture.get("/api/schedules").cookie(&operator).send().await.json();
    assert_eq!(page["schedules"][0]["profile"], "default");
    assert_eq!(page["runners"][0]["reason"], "no gateway runs");
    assert_eq!(ask(&format!("{path}/remove"), json!({})).await.0, 200);
    assert_eq!(fixture.get(&path).cookie(&operator).send().await.status, 404);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_is_made_renamed_and_deleted_by_its_name() {
    let (fixture, operator) = fixture().await;
    let ask = async |path: &str, body: Value| post(&fixture, &operator, path, &body).await;
    let new = json!({ "name": "work", "clone_from": "default", "description": "for pay" });
    let (status, made) = ask("/api/profiles", new.clone()).await;
    assert_eq!(status, 200, "{made}");
    let file = fixture.home.join("profiles/work/config.yaml");
    assert_eq!(std::fs::read_to_string(file).unwrap(), CONFIG);
    assert_eq!(ask("/api/profiles", new).await.0, 409);
    let exported = fixture.get("/api/profiles/work/export").cookie(&operator).raw().await;
    assert!(exported.starts_with(&[0x1f, 0x8b]), "a gzip of the profile");
    assert_eq!(ask("/api/profiles/work/rename", json!({ "to": "office" })).await.0, 200);
    let plan = fixture.get("/api/profiles/office/plan").cookie(&operator).send().await.json();
    assert_eq!(plan["sandboxes"], json!([]));
    let unconfirmed = ask("/api/profiles/office/delete", json!({ "confirm": "work" })).await;
    assert_eq!(unconfirmed.0, 400);
    assert!(fixture.home.join("profiles/office").exists());
    assert_eq!(ask("/api/profiles/office/delete", json!({ "confirm": "office" })).await.0, 200);
    assert!(!fixture.home.join("profiles/office").exists());
    assert_eq!(ask("/api/profiles/default/delete", json!({ "confirm": "default" })).await.0, 409);
    let left: Vec<_> = std::fs::read_dir(fixture.home.join("run"))
        .unwrap()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().contains("archive"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notes_are_written_over_what_was_read_and_within_their_size() {
    let (fixture, operator) = fixture().await;
    let ask =
        async |body: Value| post(&fixture, &operator, "/api/memory/default/memory", &body).await;
    let (status, written) = ask(json!({ "from": "", "text": "the tests need a database" })).await;
    assert_eq!((status, &written["entries"]), (200, &json!(["the tests need a database"])));
    let (status, late) = ask(json!({ "from": "", "text": "something else" })).await;
    assert_eq!(status, 409, "{late}");
    let from = written["text"].clone();
    let (status, long) = ask(json!({ "from": from, "text": "x".repeat(10_000) })).await;
    assert_eq!(status, 409, "{long}");
    let notes = fixture.get("/api/memory").cookie(&operator).send().await.json();
    assert_eq!(notes[0]["entries"], json!(["the tests need a database"]));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_key_is_written_out_is_refused_and_one_that_does_not_answer_too() {
    let (fixture, operator) = fixture().await;
    let ask = async |path: &str, body: Value| post(&fixture, &operator, path, &body).await;
    let headers = json!({ "Authorization": "Bearer hunter2" });
    let server = json!({ "name": "wiki", "url": "http://127.0.0.1:9/mcp", "headers": headers });
    let (status, refused) = ask("/api/mcp/default", server).await;
    assert_eq!(status, 400);
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    let server = json!({ "name": "wiki", "command": ["/no/such/program"] });
    let (status, silent) = ask("/api/mcp/default", server).await;
    assert_eq!((status, &silent["error"]), (409, &json!("conflict")), "{silent}");
    assert_eq!(config(&fixture), CONFIG);
    let server = json!({ "name": "wiki", "command": ["/no/such/program"], "untested": true });
    assert_eq!(ask("/api/mcp/default", server).await.0, 200);
    let listed = fixture.get("/api/mcp").cookie(&operator).send().await.json();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["target"]),
        (&json!("wiki"), &json!("/no/such/program"))
    );
    let (_, tried) = ask("/api/mcp/default/wiki/test", json!({})).await;
    assert_eq!(tried["ok"], false);
    assert_eq!(ask("/api/mcp/default/wiki/remove", json!({})).await.0, 200);
    assert_eq!(fixture.get("/api/mcp").cookie(&operator).send().await.json(), json!([]));
    fixture.stop().await;
}

#[tokio::test]
async fn a_profile_of_several_mebibytes_is_taken_as_it_comes_and_a_larger_one_refused_in_words() {
    let fixture = DashboardFixture::start().await;
    let operator = fixture.login(Right::Operator).await;
    let create = fixture.post("/api/profiles", &json!({ "name": "big" })).cookie(&operator);
    assert_eq!(create.send().await.status, 200);
    let skill = fixture.home.join("profiles/big/skills/large");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: large\ndescription: large\n---\nLarge.\n")
        .unwrap();
    // What cannot be compressed.
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    })
    .take(3 << 20)
    .collect();
    std::fs::write(skill.join("noise.bin"), &noise).unwrap();
    let archive = fixture.get("/api/profiles/big/export").cookie(&operator).raw().await;
    assert!(archive.len() > 2 << 20, "{}", archive.len());

    let import = |name: &str| {
        let path = format!("/api/profiles/import?name={name}");
        fixture.upload(&path).cookie(&operator)
    };
    let made = import("copy").send_bytes(&archive, archive.len()).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let copied = std::fs::read(fixture.home.join("profiles/copy/skills/large/noise.bin")).unwrap();
    assert!(copied == noise, "every byte");
    let refused = import("huge").send_bytes(b"", 1 << 30).await;
    assert_eq!(refused.status, 413, "{}", refused.body);
    assert!(refused.body.contains("at most 160 MiB"), "{}", refused.body);
    let left = std::fs::read_dir(fixture.home.join("run")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_str().unwrap().contains("archive")), "{left:?}");
    fixture.stop().await;
}
