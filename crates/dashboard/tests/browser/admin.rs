//! An operator who manages a home in a browser.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use vestal_dashboard::gate::Right;

use crate::support::DashboardFixture;
use crate::{WITHIN, browser, say};

const CONFIG: &str = "# mine\nmodel:\n  api_key: sk-of-the-model\nagent:\n  max_turns: 7\n";

const SKILL: &str = "---\nname: pdf-forms\ndescription: fills in forms\n---\n\nOpen the form.\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_manages_a_home_in_the_browser() {
    let fixture = DashboardFixture::start_with_config(CONFIG, "").await;
    let link = fixture.link(Right::Operator).await;
    let config = fixture.home.join("config.yaml");
    let mut command = browser(&fixture, "admin.mjs");
    let mut child = command.spawn().expect("node is not installed; scripts/test installs it");
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    say(&mut stdin, &link).await;
    let story = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.as_str() {
                "config" => {
                    let text = std::fs::read_to_string(&config).unwrap();
                    say(&mut stdin, &serde_json::to_string(&text).unwrap()).await;
                }
                "change the config" => {
                    let text = std::fs::read_to_string(&config).unwrap();
                    std::fs::write(&config, format!("{text}# by another\n")).unwrap();
                    say(&mut stdin, "done").await;
                }
                "install a skill" => {
                    let dir = fixture.home.join("skills/office/pdf-forms");
                    std::fs::create_dir_all(&dir).unwrap();
                    std::fs::write(dir.join("SKILL.md"), SKILL).unwrap();
                    say(&mut stdin, "done").await;
                }
                other => println!("{other}"),
            }
        }
    };
    tokio::time::timeout(WITHIN, story).await.expect("the browser does not come to an end");
    let status = child.wait().await.unwrap();
    let mut reply = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reply).await.unwrap();
    assert!(status.success(), "{reply}");
    fixture.stop().await;
}
