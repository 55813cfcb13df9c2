use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tar::EntryType;

use crate::testing::{ProfilesFixture, name};
use crate::*;

fn put(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(path, text).expect("written");
}

impl ProfilesFixture {
    /// Makes an archive of these entries: kind, path, content or target.
    fn archive(&self, entries: &[(EntryType, &str, &str)]) -> PathBuf {
        let path = self.path("made.tar.gz");
        let gzip = GzEncoder::new(fs::File::create(&path).expect("made"), Compression::fast());
        let mut archive = tar::Builder::new(gzip);
        for (kind, name, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            // Written as bytes, because the library refuses what is tested here.
            let field = header.as_old_mut();
            field.name[..name.len()].copy_from_slice(name.as_bytes());
            let content = if *kind == EntryType::Regular { *text } else { "" };
            if *kind != EntryType::Regular {
                header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
            }
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content.as_bytes()).expect("appended");
        }
        archive.into_inner().expect("written").finish().expect("written");
        path
    }

    fn refusal(&self, archive: &Path) -> String {
        let error = self.profiles.import(archive, Some(&name("new"))).expect_err("refused");
        let profiles = self.path("root/profiles");
        let left: Vec<_> = fs::read_dir(&profiles).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!self.path("escaped").exists());
        error.to_string()
    }
}

const FILE: EntryType = EntryType::Regular;
const DIR: EntryType = EntryType::Directory;

fn filled(fixture: &ProfilesFixture) -> PathBuf {
    let made = fixture.profiles.create(&name("source"), &ProfileStart::Empty, "what it is for");
    let dir = made.expect("made").home.dir();
    put(
        &dir,
        "config.yaml",
        "# once: hunter2-comment\nmodel:\n  default: some/model\n  api_key: hunter2-key\n\
         providers:\n  here: {base_url: \"http://h\", api_key: hunter2-provider, api_key_env: HERE}\n\
         terminal: {env: {TOKEN: hunter2-env}, timeout: 90, sandbox_dir: /boxes, cwd: \"~/x: y\"}\n\
         mcp_servers: {x: {env: {TOKEN: hunter2-mcp}}}\nunknown: hunter2-unknown\n\
         command_allowlist: [\"curl -H hunter2-allowed\"]\ntoolsets: [terminal]\n\
         agent: {max_turns: hunter2-wrong, system_prompt: \"two\\nlines\"}\n",
    );
    for secret in [
        ".env",
        ".env.bak",
        ".op.env",
        "auth.json",
        "auth.lock",
        "mcp-tokens/x.json",
        "state.db",
        "state.db-wal",
        "home.json",
        "sandboxes/default/workspace/file",
        "logs/agent.log",
        "skills/a/.env",
        "skills/a/prod.env",
        "skills/a/prod.env.bak",
        "skills/a/server.key",
        "skills/a/credentials.json",
        "skills/tokens/x",
        "memories/.hidden",
        "other.txt",
    ] {
        put(&dir, secret, "hunter2-file");
    }
    put(&dir, "SOUL.md", "persona");
    put(&dir, "skills/a/SKILL.md", "how");
    put(&dir, "skills/authoring/SKILL.md", "kept");
    put(&dir, "memories/MEMORY.md", "what");
    symlink("/etc/passwd", dir.join("skills/link")).expect("linked");
    symlink(dir.join("sandboxes"), dir.join("memories/dir")).expect("linked");
    dir
}

#[test]
fn an_export_holds_no_secret_and_comes_back_as_it_was() {
    let fixture = ProfilesFixture::new();
    let dir = filled(&fixture);
    let archive = fixture.path("out.tar.gz");
    let exported = fixture.profiles.export(&name("source"), &archive).expect("exported");
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(&archive).expect("there"))
        .read_to_end(&mut bytes)
        .expect("readable");
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("hunter2"), "{text}");
    let mut names: Vec<String> = tar::Archive::new(&*bytes)
        .entries()
        .expect("entries")
        .map(|entry| entry.expect("an entry").path().expect("a path").display().to_string())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "source/SOUL.md",
            "source/config.yaml",
            "source/memories/MEMORY.md",
            "source/profile.json",
            "source/skills/a/SKILL.md",
            "source/skills/authoring/SKILL.md",
        ]
    );
    assert_eq!(exported.files, 6);
    assert!(exported.left_out.contains(&dir.join("skills/link")), "{exported:?}");
    assert!(exported.left_out.contains(&dir.join("skills/a/prod.env")), "{exported:?}");
    assert_eq!(
        exported.settings_left_out,
        [
            "providers.*.api_key",
            "model.api_key",
            "terminal.env",
            "terminal.sandbox_dir",
            "mcp_servers",
            "unknown",
            "command_allowlist",
            "agent.max_turns",
        ]
    );
    let imported = fixture.profiles.import(&archive, Some(&name("copy"))).expect("imported");
    assert_eq!((imported.files, imported.left_out.len()), (6, 0));
    let copy = imported.home.dir();
    assert_eq!(
        fs::read_to_string(copy.join("config.yaml")).expect("there"),
        "# Settings of an exported profile. Secrets and unknown keys were left out.\n\
         providers: {here: {api_key_env: HERE, api_mode: auto, base_url: http://h, context_length: auto}}\n\
         toolsets: [terminal]\n\
         agent:\n  system_prompt: \"two\\nlines\"\n\
         model:\n  default: some/model\n\
         terminal:\n  cwd: \"~/x: y\"\n  timeout: 90\n"
    );
    assert_eq!(fs::read_to_string(copy.join("skills/a/SKILL.md")).expect("there"), "how");
    assert!(!copy.join("home.json").exists(), "an identity of its own");
    let details = fixture.profiles.show(&name("copy"), None).expect("shown");
    assert_eq!(details.view.description, "what it is for");
    assert_eq!(details.view.model.as_deref(), Some("some/model"));
    assert_eq!(details.view.problem, None);
}

#[test]
fn an_export_overwrites_nothing() {
    let fixture = ProfilesFixture::new();
    fixture.profiles.create(&name("a"), &ProfileStart::Empty, "").expect("made");
    let archive = fixture.path("out.tar.gz");
    fs::write(&archive, "mine").expect("written");
    let error = fixture.profiles.export(&name("a"), &archive).expect_err("there");
    assert!(matches!(error, ProfileError::FileExists { .. }), "{error}");
    assert_eq!(fs::read_to_string(&archive).expect("there"), "mine");
    assert!(fixture.profiles.export(&name("a"), &fixture.path("no/such/dir")).is_err());
    assert!(fixture.profiles.export(&name("no"), &fixture.path("x")).is_err());
    // The profile that lives in the root can travel, too; its siblings stay.
    fixture.profiles.export(&name("default"), &fixture.path("default.tar.gz")).expect("exported");
    let left: Vec<_> = fs::read_dir(fixture.dir.path())
        .expect("there")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_could_leave_its_place_is_refused_whole() {
    let fixture = ProfilesFixture::new();
    for (entries, reason) in [
        (&[(FILE, "a/SOUL.md", "x"), (FILE, "/escaped", "x")][..], "an absolute path"),
        (&[(FILE, "a/skills/../../../escaped", "x")], "leads out of it"),
        (&[(FILE, "../escaped", "x")], "leads out of it"),
        (&[(EntryType::Symlink, "a/skills/x", "/etc")], "a link"),
        (&[(EntryType::Symlink, "a/elsewhere", "/etc")], "a link"),
        (&[(EntryType::Link, "a/skills/x", "a/SOUL.md")], "a link"),
        (&[(EntryType::Char, "a/skills/x", "")], "a device"),
        (&[(EntryType::Block, "a/skills/x", "")], "a device"),
        (&[(EntryType::Fifo, "a/skills/x", "")], "a pipe"),
        (&[(EntryType::Continuous, "a/skills/x", "")], "neither a file"),
        (&[(FILE, "a/SOUL.md", "x"), (FILE, "b/SOUL.md", "x")], "two directories"),
        (&[(FILE, "a/SOUL.md", "x"), (FILE, "a/./SOUL.md", "y")], "twice"),
        (&[(FILE, "a/skills/x", "x"), (FILE, "a/skills/x/y", "y")], "cannot be taken"),
        (&[(FILE, "SOUL.md", "x")], "at its top"),
        (&[(FILE, "a/skills/\u{1b}x", "x")], "control characters"),
        (&[(FILE, "a/profile.json", "{\"version\":2}")], "newer vestal"),
        (&[(FILE, "a/profile.json", "no")], "cannot be read"),
        (&[], "it is empty"),
    ] {
        let refusal = fixture.refusal(&fixture.archive(entries));
        assert!(refusal.contains(reason), "{reason}: {refusal}");
    }
}

#[test]
fn what_is_no_archive_or_too_large_is_refused() {
    let fixture = ProfilesFixture::new();
    let path = fixture.path("made.tar.gz");
    fs::write(&path, "text").expect("written");
    assert!(fixture.refusal(&path).contains("it is not an archive"));
    fixture.profiles.create(&name("a"), &ProfileStart::Empty, "").expect("made");
    fixture.profiles.export(&name("a"), &fixture.path("whole.tar.gz")).expect("exported");
    fixture.profiles.delete(&name("a")).expect("deleted");
    let whole = fs::read(fixture.path("whole.tar.gz")).expect("there");
    for kept in [whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..kept]).expect("written");
        assert!(fixture.refusal(&path).contains("is not imported"), "{kept} bytes");
    }
    let mut damaged = whole.clone();
    let checksum = damaged.len() - 8;
    damaged[checksum] ^= 1;
    fs::write(&path, &damaged).expect("written");
    assert!(fixture.refusal(&path).contains("it is not an archive"), "a wrong checksum");
    // A header that promises more than is allowed is believed before it is read.
    let mut header = tar::Header::new_gnu();
    header.set_path("a/skills/large").expect("a path");
    header.set_size(crate::export::MAX_FILE + 1);
    header.set_cksum();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(header.as_bytes()).expect("written");
    fs::write(&path, gzip.finish().expect("written")).expect("written");
    assert!(fixture.refusal(&path).contains("more than 32 MiB in a file"));
    assert!(fixture.profiles.import(&fixture.path("absent"), None).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_archive_panics_or_leaves_anything(bytes in any::<Vec<u8>>(), blocks in 0_usize..4) {
        let fixture = ProfilesFixture::new();
        let archive = fixture.path("made.tar.gz");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&bytes).expect("written");
        gzip.write_all(&vec![b'7'; 512 * blocks]).expect("written");
        fs::write(&archive, gzip.finish().expect("written")).expect("written");
        prop_assert!(fixture.profiles.import(&archive, Some(&name("new"))).is_err());
        prop_assert_eq!(fs::read_dir(fixture.path("root/profiles")).expect("there").count(), 0);
    }
}

#[test]
fn what_does_not_travel_is_left_out_of_an_import_and_reported() {
    let fixture = ProfilesFixture::new();
    let archive = fixture.archive(&[
        (DIR, "./plain/", ""),
        (FILE, "./plain/SOUL.md", "x"),
        (FILE, "./plain/.env", "OPENAI_API_KEY=theirs"),
        (FILE, "./plain/home.json", "{\"version\":1,\"id\":\"stolen\"}"),
        (FILE, "./plain/sandboxes/default/sandbox.json", "{}"),
        (FILE, "./plain/skills/.git/config", "x"),
        (FILE, "./plain/skills", "no directory"),
        (DIR, "./plain/memories/", ""),
    ]);
    let imported = fixture.profiles.import(&archive, None).expect("imported");
    assert_eq!(imported.home.profile(), &name("plain"));
    assert_eq!(
        imported.left_out,
        [".env", "home.json", "sandboxes/default/sandbox.json", "skills/.git/config", "skills"]
    );
    let dir = imported.home.dir();
    assert!(!dir.join("home.json").exists() && !dir.join("sandboxes").exists());
    assert_eq!(fs::read_to_string(dir.join(".env")).expect("there"), super::create::ENV_HEADER);
}

#[test]
fn an_import_needs_a_name_that_is_free() {
    let fixture = ProfilesFixture::new();
    let archive = fixture.archive(&[(FILE, "a/SOUL.md", "x")]);
    fixture.profiles.import(&archive, None).expect("imported");
    let again = fixture.profiles.import(&archive, None).expect_err("there");
    assert!(matches!(again, ProfileError::Exists { .. }), "{again}");
    for taken in ["default", "sudo"] {
        let error = fixture.profiles.import(&archive, Some(&name(taken))).expect_err("reserved");
        assert!(matches!(error, ProfileError::Reserved { .. }), "{error}");
    }
    let odd = fixture.archive(&[(FILE, "No Name/SOUL.md", "x")]);
    let error = fixture.profiles.import(&odd, None).expect_err("no name").to_string();
    assert!(error.ends_with("give it one with --name"), "{error}");
    fixture.profiles.import(&odd, Some(&name("b"))).expect("imported");
}
