//! Repositories and catalogues, real ones on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tempfile::TempDir;
use vestal_config::{Environment, Home, Override, Settings};

use super::*;
use crate::error::SkillError;
use crate::skills::{Skills, from_settings};

struct RemoteFixture {
    dir: TempDir,
}

impl RemoteFixture {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn skills(&self, assignments: &[&str]) -> Skills {
        let captured = Environment::capture();
        let path = captured.get("PATH").unwrap_or_default();
        let home = self.dir.path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        let environment = Environment::from_pairs([("PATH", path), ("HOME", home.as_os_str())]);
        let schema = vestal_agent::schema().with([&crate::keys::GROUP, &vestal_web::keys::GROUP]);
        let set = assignments.iter().map(|text| Override::parse(&schema, text).unwrap()).collect();
        let home = Home::at(self.dir.path().join("vestal"));
        from_settings(&Arc::new(Settings::load(&schema, home, environment, set)))
    }

    fn repository(&self) -> PathBuf {
        self.dir.path().join("repository")
    }

    fn git(&self, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"])
            .args(words)
            .env("HOME", self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.repository())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits files and returns the commit.
    fn commit(&self, files: &[(&str, &str)]) -> String {
        let root = self.repository();
        if !root.exists() {
            std::fs::create_dir_all(&root).unwrap();
            self.git(&["init", "--quiet", "--initial-branch=main", "."]);
        }
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn source(&self) -> SkillSource {
        SkillSource::parse(&format!("file://{}", self.repository().display())).unwrap()
    }
}

fn instructions(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Does it.\n---\n{more}\n")
}

async fn install(skills: &Skills, source: &SkillSource) -> SkillOrigin {
    let fetched = skills.fetch(source).await.unwrap();
    let proposal = skills.propose(&fetched.archive, None).unwrap();
    skills.install_from(&proposal, Some(&fetched.origin)).unwrap();
    let dir = fetched.archive.parent().unwrap().to_owned();
    let origin = fetched.origin.clone();
    drop(fetched);
    assert!(!dir.exists(), "what was fetched is gone");
    origin
}

fn text(skills: &Skills, file: &str) -> String {
    std::fs::read_to_string(skills.root().join(file)).unwrap()
}

#[tokio::test]
async fn a_skill_of_a_repository_is_installed_at_its_commit_and_updated() {
    let fixture = RemoteFixture::new();
    let first = fixture.commit(&[
        ("README.md", "skills"),
        ("skills/pdf/SKILL.md", &instructions("pdf", "one")),
        ("skills/pdf/run.sh", "#!/bin/sh\n"),
        ("skills/csv/SKILL.md", &instructions("csv", "other")),
    ]);
    let skills = fixture.skills(&[]);
    let several = skills.fetch(&fixture.source()).await.unwrap_err().to_string();
    assert!(several.contains("--path: skills/csv, skills/pdf"), "{several}");
    let source = fixture.source().with(None, Some("pdf")).unwrap();
    let origin = install(&skills, &source).await;
    assert_eq!(origin.commit.as_deref(), Some(first.as_str()));
    assert_eq!(origin.path.as_deref(), Some("skills/pdf"));
    assert!(text(&skills, "pdf/SKILL.md").contains("one"));
    assert!(!skills.root().join("csv").exists());
    assert!(!skills.is_changed_here("pdf").unwrap());

    let second = fixture.commit(&[("skills/pdf/SKILL.md", &instructions("pdf", "two"))]);
    std::fs::write(skills.root().join("pdf/run.sh"), "changed").unwrap();
    assert!(skills.is_changed_here("pdf").unwrap());
    let known = skills.origins().unwrap().remove("pdf").unwrap();
    let updated = install(&skills, &known.source()).await;
    assert_eq!(updated.commit.as_deref(), Some(second.as_str()));
    assert!(text(&skills, "pdf/SKILL.md").contains("two"));
    assert!(!skills.is_changed_here("pdf").unwrap());
    // A tag, a branch or a commit may be asked for.
    fixture.git(&["tag", "v1", &first]);
    let tagged = source.clone().with(Some("v1"), None).unwrap();
    assert_eq!(skills.fetch(&tagged).await.unwrap().origin.commit, Some(first));
    skills.remove("pdf").unwrap();
    assert!(skills.origins().unwrap().is_empty());
}

#[tokio::test]
async fn nothing_of_a_repository_runs_and_nothing_leads_out_of_it() {
    let fixture = RemoteFixture::new();
    let witness = fixture.dir.path().join("witness");
    let filter = "* filter=evil\nsecret export-ignore\n";
    fixture.commit(&[
        ("SKILL.md", &instructions("evil", "x")),
        (".gitattributes", filter),
        ("secret", "left out"),
    ]);
    let hook = format!("#!/bin/sh\ntouch {}\n", witness.display());
    for name in ["post-checkout", "post-update", "pre-push"] {
        let path = fixture.repository().join(".git/hooks").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &hook).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    fixture.git(&["config", "filter.evil.smudge", &format!("touch {}", witness.display())]);
    let skills = fixture.skills(&[]);
    install(&skills, &fixture.source()).await;
    assert!(!witness.exists());
    std::os::unix::fs::symlink("/etc/passwd", fixture.repository().join("passwd")).unwrap();
    fixture.commit(&[]);
    let fetched = skills.fetch(&fixture.source()).await.unwrap();
    let refused = skills.propose(&fetched.archive, None).unwrap_err().to_string();
    assert!(refused.contains("is a link"), "{refused}");
}

#[tokio::test]
async fn a_repository_that_is_not_there_says_so() {
    let fixture = RemoteFixture::new();
    let skills = fixture.skills(&[]);
    let error = skills.fetch(&fixture.source()).await.unwrap_err();
    assert!(matches!(error, SkillError::Fetch { .. }), "{error:?}");
    fixture.commit(&[("README.md", "nothing")]);
    let error = skills.fetch(&fixture.source()).await.unwrap_err().to_string();
    assert!(error.contains("no SKILL.md"), "{error}");
    let missing = fixture.source().with(Some("no-such-branch"), None).unwrap();
    assert!(skills.fetch(&missing).await.is_err());
    let left: Vec<_> =
        std::fs::read_dir(fixture.dir.path().join("vestal/cache")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Serves a catalogue and returns its address.
async fn catalogue(routes: Router) -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        axum::serve(listener, routes).await.unwrap();
    });
    (url, serving)
}

/// Returns a sitemap of skills with these numbers.
fn sitemap(base: &str, numbers: std::ops::Range<usize>) -> String {
    let urls = numbers.map(|number| {
        format!("<url><loc>{base}/owner{}/repo/skill-{number}</loc></url>", number % 7)
    });
    format!("<?xml version=\"1.0\"?><urlset>{}</urlset>", urls.collect::<Vec<_>>().concat())
}

#[tokio::test]
async fn a_catalogue_is_walked_whole_index_and_all() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let index = {
        let maps = (0..4).map(|n| format!("<sitemap><loc>{base}/map-{n}.xml</loc></sitemap>"));
        let maps = maps.collect::<Vec<_>>().concat();
        // It names itself, another site, and one that is not there.
        format!(
            "<sitemapindex>{maps}<sitemap><loc>{base}/index.xml</loc></sitemap>\
            <sitemap><loc>https://elsewhere.invalid/x.xml</loc></sitemap>\
            <sitemap><loc>{base}/gone.xml</loc></sitemap></sitemapindex>"
        )
    };
    let robots = format!("User-agent: *\nSitemap: {base}/index.xml\n");
    let maps: Vec<String> = (0..4).map(|n| sitemap(&base, n * 5000..(n + 1) * 5000)).collect();
    let about = format!("<urlset><url><loc>{base}/about</loc></url></urlset>");
    let mut routes = Router::new()
        .route("/robots.txt", get(move || async move { robots }))
        .route("/index.xml", get(move || async move { index }))
        .route("/about.xml", get(move || async move { about }));
    for (n, map) in maps.into_iter().enumerate() {
        routes = routes.route(&format!("/map-{n}.xml"), get(move || async move { map }));
    }
    let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    let fixture = RemoteFixture::new();
    let named = format!("skills.catalogue_url={base}");
    let allowed = r#"web.allowed_networks=["127.0.0.1"]"#;
    let skills = fixture.skills(&[&named, allowed]);
    let found = skills.remote_catalogue(false).await.unwrap();
    assert_eq!(found.entries.len(), 20_000);
    assert_eq!(found.notices.len(), 1, "{:?}", found.notices);
    assert!(found.notices[0].contains("gone.xml") && found.notices[0].contains("404"));
    // It is kept for a day.
    serving.abort();
    assert_eq!(skills.remote_catalogue(false).await.unwrap().entries, found.entries);
    assert!(skills.remote_catalogue(true).await.is_err());
    // Not in this machine's network unless it is allowed.
    let strict = fixture.skills(&[&named]);
    let refused = strict.remote_catalogue(true).await.unwrap_err().to_string();
    assert!(refused.contains("not on the public internet"), "{refused}");
    let none = fixture.skills(&[]).remote_catalogue(false).await.unwrap_err();
    assert!(matches!(none, SkillError::NoCatalogue));
}

#[tokio::test]
async fn a_skill_of_a_catalogue_is_installed_by_its_name_or_its_page() {
    let fixture = RemoteFixture::new();
    fixture.commit(&[("a/pdf/SKILL.md", &instructions("pdf", "x"))]);
    let template =
        format!("skills.catalogue_git=file://{}/{{repository}}", fixture.dir.path().display());
    let skills = fixture.skills(&["skills.catalogue_url=https://catalogue.example", &template]);
    for text in ["ann/repository/pdf", "https://catalogue.example/ann/repository/pdf"] {
        let source = skills.catalogue_source(text).unwrap().unwrap();
        assert_eq!(install(&skills, &source).await.path.as_deref(), Some("a/pdf"));
    }
    for other in ["https://elsewhere.example/ann/repository/pdf", "pdf", "./a/b/c", "../a/b"] {
        assert_eq!(skills.catalogue_source(other).unwrap(), None, "{other}");
    }
    let usual = fixture.skills(&[]).catalogue_source("ann/repo/pdf").unwrap().unwrap();
    assert_eq!(usual.to_string(), "https://github.com/ann/repo");
}

#[tokio::test]
async fn an_archive_of_the_web_is_installed_and_nothing_else() {
    let fixture = RemoteFixture::new();
    let mut tar = tar::Builder::new(Vec::new());
    let text = instructions("pdf", "of the web");
    let mut header = tar::Header::new_ustar();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::Regular);
    tar.append_data(&mut header, "pdf/SKILL.md", text.as_bytes()).unwrap();
    let archive = tar.into_inner().unwrap();
    let routes = Router::new()
        .route("/pdf.tar", get(move || async move { archive }))
        .route("/gone.tar", get(|| async { StatusCode::NOT_FOUND }))
        .route("/page.zip", get(|| async { "<html>" }));
    let (url, serving) = catalogue(routes).await;
    let skills = fixture.skills(&[r#"web.allowed_networks=["127.0.0.1"]"#]);
    let source = |file: &str| SkillSource::parse(&format!("{url}/{file}")).unwrap();
    let origin = install(&skills, &source("pdf.tar")).await;
    assert_eq!((origin.commit, origin.url), (None, format!("{url}/pdf.tar")));
    assert!(text_of(&skills).contains("of the web"));
    assert!(skills.fetch(&source("gone.tar")).await.unwrap_err().to_string().contains("404"));
    let page = skills.fetch(&source("page.zip")).await.unwrap();
    assert!(skills.propose(&page.archive, None).is_err());
    serving.abort();
}

fn text_of(skills: &Skills) -> String {
    std::fs::read_to_string(Path::new(skills.root()).join("pdf/SKILL.md")).unwrap()
}
