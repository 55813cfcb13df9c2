use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::EntryType;

use super::archive::MAX_UNPACKED;
use super::*;
use crate::skill::MAX_FILES;
use crate::testing::{SkillHome, text};

const FILE: EntryType = EntryType::Regular;

fn tar(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, path, bytes) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(if bytes.starts_with(b"#!") { 0o755 } else { 0o644 });
        // The builder would not write what an attacker does.
        let name = path.as_bytes();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name);
        if matches!(kind, EntryType::Link | EntryType::Symlink) {
            header.set_link_name(std::str::from_utf8(bytes).unwrap()).unwrap();
            header.set_size(0);
            header.set_cksum();
            builder.append(&header, io::empty()).unwrap();
            continue;
        }
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn open(bytes: &[u8]) -> Result<Package, String> {
    let home = SkillHome::new();
    home.put("archive", bytes);
    Package::open(&home.path("archive"))
}

fn names(package: &Package) -> Vec<String> {
    package.files.keys().map(|path| path.display().to_string()).collect()
}

#[test]
fn archives_are_read_whatever_folder_the_skill_is_in() {
    let skill = text("x", "");
    for root in ["", "x/", "./x-1.2/", "deep/er/x/"] {
        let paths = ["SKILL.md", "scripts/go", ".env"].map(|path| format!("{root}{path}"));
        let archive = tar(&[
            (EntryType::XGlobalHeader, "pax_global_header", b"11 a=b\n"),
            (FILE, &paths[0], skill.as_bytes()),
            (FILE, &paths[1], b"#!/bin/sh\n"),
            (FILE, &paths[2], b"SECRET=1"),
        ]);
        for bytes in [gzip(&archive), archive] {
            let package = open(&bytes).unwrap();
            assert_eq!(names(&package), ["SKILL.md", "scripts/go"]);
            assert!(package.files[Path::new("scripts/go")].executable);
            assert_eq!(package.left_out.len(), 1);
            assert_eq!(package.instructions().unwrap(), skill);
        }
    }
}

#[test]
fn archives_that_lead_elsewhere_are_refused_as_a_whole() {
    let skill = text("x", "");
    let skill = skill.as_bytes();
    for (entry, reason) in [
        ((FILE, "/etc/passwd", &b"x"[..]), "an absolute path"),
        ((FILE, "x/../../evil", b"x"), "leads out of it"),
        ((EntryType::Directory, "../evil", b""), "leads out of it"),
        ((EntryType::Symlink, "x/link", b"/etc"), "a link"),
        ((EntryType::Link, "x/link", b"x/SKILL.md"), "a link"),
        ((EntryType::Char, "x/dev", b""), "neither a file nor a folder"),
        ((EntryType::Fifo, "x/pipe", b""), "neither a file nor a folder"),
        ((EntryType::Continuous, "x/odd", b""), "neither a file nor a folder"),
        ((FILE, "x/SKILL.md", b"other"), "twice"),
        ((FILE, "x/skill.md", b"other"), "in capitals as well"),
        ((FILE, "x/SKILL.md/below", b"other"), "as a file and a folder"),
        ((FILE, "x/a\nb", b"x"), "characters that make trouble"),
        ((FILE, "y/SKILL.md", b"x"), "several skills"),
    ] {
        let error = open(&tar(&[(FILE, "x/SKILL.md", skill), entry])).unwrap_err();
        assert!(error.contains(reason), "{entry:?}: {error}");
    }
}

#[test]
fn bombs_and_rubbish_are_refused() {
    let skill = text("x", "");
    let large = vec![0; 32 << 20];
    let archive = tar(&[(FILE, "x/SKILL.md", skill.as_bytes()), (FILE, "x/large", &large)]);
    assert!(open(&gzip(&archive)).unwrap_err().contains("32 MiB"));
    // What is left out counts as well.
    let mut header = tar::Header::new_gnu();
    header.set_path("x/.git/pack").unwrap();
    header.set_size(MAX_UNPACKED);
    header.set_mode(0o644);
    header.set_cksum();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(header.as_bytes()).unwrap();
    io::copy(&mut io::repeat(0).take(MAX_UNPACKED + 1024), &mut gzip).unwrap();
    assert!(open(&gzip.finish().unwrap()).unwrap_err().contains("more than 256 MiB"));
    // One that lies about what follows.
    let mut liar = tar::Header::new_gnu();
    liar.set_path("x/SKILL.md").unwrap();
    liar.set_size(u64::MAX / 2);
    liar.set_cksum();
    assert!(open(liar.as_bytes()).is_err());
    let many: Vec<String> = (0..=MAX_FILES).map(|number| format!("x/{number}")).collect();
    let many: Vec<(EntryType, &str, &[u8])> =
        many.iter().map(|path| (FILE, path.as_str(), &b""[..])).collect();
    assert!(open(&tar(&many)).unwrap_err().contains("2000 files"));
    // Folders count as well, where a sandbox is shown them.
    let many: Vec<String> = (0..MAX_FILES / 2).map(|number| format!("x/{number}/a")).collect();
    let many = many.iter().map(|path| (FILE, path.as_str(), &b""[..]));
    let many: Vec<_> = [(FILE, "x/SKILL.md", skill.as_bytes())].into_iter().chain(many).collect();
    assert!(open(&tar(&many)).unwrap_err().contains("2000 files and folders"));
    for (bytes, reason) in [
        (&b"rubbish"[..], "neither a folder nor a tar"),
        (b"", "neither a folder nor a tar"),
        (&[0x1f, 0x8b, 8, 0, 0], "damaged"),
        (&self::gzip(b"no tar at all"), "damaged"),
        (&tar(&[(FILE, "readme", b"x")]), "no SKILL.md"),
    ] {
        let error = open(bytes).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn folders_are_read_without_what_is_hidden_and_refused_with_links() {
    let home = SkillHome::new();
    home.put("x/SKILL.md", text("x", "")).put("x/a/b", "b").put("x/.git/config", "x");
    home.put("x/a/.env", "SECRET=1");
    let package = Package::open(&home.path("x")).unwrap();
    assert_eq!(names(&package), ["SKILL.md", "a/b"]);
    assert_eq!(package.left_out, [".git", "a/.env"]);
    std::os::unix::fs::symlink("b", home.path("x/a/link")).unwrap();
    let error = Package::open(&home.path("x")).unwrap_err();
    assert!(error.contains("a/link is a link"), "{error}");
    assert!(Package::open(&home.path("x/a")).unwrap_err().contains("no SKILL.md"));
    assert!(Package::open(&home.path("none")).unwrap_err().contains("cannot be read"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        home.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert!(Package::open(&home.path("pipe")).unwrap_err().contains("neither a folder"));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..2000),
        at in 0_usize..2000,
        byte in proptest::prelude::any::<u8>(),
    ) {
        drop(open(&bytes));
        let mut archive = tar(&[(FILE, "x/SKILL.md", text("x", "").as_bytes()), (FILE, "x/a", b"a")]);
        let at = at % archive.len();
        archive[at] = byte;
        drop(open(&archive));
    }
}
