use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::super::Package;
use super::{MAX_ENTRIES, MAX_LISTING};
use crate::skill::{MAX_BYTES, MAX_FILES};
use crate::testing::{SkillHome, text};

const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const UNIX: u16 = 3;
const DOS: u16 = 0;

/// A file of an archive, with whatever an attacker would say about it.
#[derive(Clone)]
struct Entry {
    name: Vec<u8>,
    packed: Vec<u8>,
    method: u16,
    flags: u16,
    crc: u32,
    size: u32,
    system: u16,
    mode: u32,
}

fn entry(name: &str, bytes: &[u8]) -> Entry {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    Entry {
        name: name.as_bytes().to_vec(),
        packed: packed.finish().unwrap(),
        method: DEFLATED,
        flags: 0,
        crc: crc.sum(),
        size: u32::try_from(bytes.len()).unwrap(),
        system: UNIX,
        mode: 0o100_644,
    }
}

fn stored(name: &str, bytes: &[u8]) -> Entry {
    Entry { packed: bytes.to_vec(), method: STORED, ..entry(name, bytes) }
}

fn skill() -> Entry {
    entry("x/SKILL.md", text("x", "").as_bytes())
}

fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut list) = (Vec::new(), Vec::new());
    let number = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    for entry in entries {
        let start = number(bytes.len());
        let mut common = Vec::new();
        for half in [20, entry.flags, entry.method, 0, 0x21] {
            common.extend(half.to_le_bytes());
        }
        common.extend(entry.crc.to_le_bytes());
        common.extend(number(entry.packed.len()));
        common.extend(entry.size.to_le_bytes());
        common.extend(u16::try_from(entry.name.len()).unwrap().to_le_bytes());
        common.extend([0; 2]);
        bytes.extend([b"PK\x03\x04", &common[..], &entry.name, &entry.packed].concat());
        list.extend(*b"PK\x01\x02");
        list.extend((entry.system * 256 + 20).to_le_bytes());
        list.extend(common);
        list.extend([0; 6]);
        list.extend((entry.mode << 16).to_le_bytes());
        list.extend(start);
        list.extend(&entry.name);
    }
    let start = number(bytes.len());
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    bytes.extend(&list);
    bytes.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &number(list.len())].concat());
    bytes.extend(start);
    bytes.extend([0; 2]);
    bytes
}

fn open(bytes: &[u8]) -> Result<Package, String> {
    let home = SkillHome::new();
    home.put("archive.skill", bytes);
    Package::open(&home.path("archive.skill"))
}

fn refused(entries: &[Entry]) -> String {
    open(&zip(entries)).unwrap_err()
}

#[test]
fn zips_are_read_whatever_folder_the_skill_is_in() {
    let skill = text("x", "");
    for root in ["", "x/", "./x-1.2/", "deep/er/x/"] {
        let at = |path: &str| format!("{root}{path}");
        let program = Entry { mode: 0o100_755, ..entry(&at("scripts/go"), b"words") };
        let folder = Entry { mode: 0o040_755, ..stored(&at("scripts/"), b"") };
        let bytes = zip(&[
            entry(&at("SKILL.md"), skill.as_bytes()),
            folder,
            program,
            stored(&at("notes.txt"), b"#!/bin/sh"),
            entry(&at(".env"), b"SECRET=1"),
            entry("__MACOSX/._SKILL.md", b"litter"),
        ]);
        let package = open(&bytes).unwrap();
        let files: Vec<_> = package
            .files
            .iter()
            .map(|(path, file)| (path.to_str().unwrap(), file.executable))
            .collect();
        assert_eq!(files, [("SKILL.md", false), ("notes.txt", false), ("scripts/go", true)]);
        assert_eq!(package.left_out, [at(".env"), "__MACOSX/._SKILL.md".to_owned()]);
        assert_eq!(package.instructions().unwrap(), skill);
        assert_eq!(package.files[Path::new("notes.txt")].bytes, b"#!/bin/sh");
    }
}

#[test]
fn scripts_of_systems_without_modes_are_programs() {
    let script = |system, mode| Entry { system, mode, ..entry("x/go", b"#!/bin/sh\n") };
    for (script, is_program) in
        [(script(DOS, 0), true), (script(UNIX, 0), true), (script(UNIX, 0o644), false)]
    {
        let package = open(&zip(&[skill(), script])).unwrap();
        assert_eq!(package.files[Path::new("go")].executable, is_program);
    }
}

#[test]
fn zips_that_lead_elsewhere_are_refused_as_a_whole() {
    let odd = |mode| Entry { mode, ..stored("x/odd", b"/etc/passwd") };
    for (entry, reason) in [
        (entry("/etc/passwd", b"x"), "an absolute path"),
        (entry("C:/x", b"x"), "an absolute path"),
        (entry("\\\\host\\x", b"x"), "an absolute path"),
        (entry("x/../../evil", b"x"), "leads out of it"),
        (entry("x\\..\\..\\evil", b"x"), "leads out of it"),
        (entry("../evil/", b""), "leads out of it"),
        (odd(0o120_777), "a link"),
        (Entry { name: b"x/odd/".to_vec(), ..odd(0o120_777) }, "a link"),
        (odd(0o010_644), "neither a file nor a folder"),
        (odd(0o020_644), "neither a file nor a folder"),
        (entry("x/SKILL.md", b"other"), "twice"),
        (entry("x/./SKILL.md", b"other"), "twice"),
        (entry("x/skill.md", b"other"), "in capitals as well"),
        (entry("X/Skill.MD/below", b"other"), "as a file and a folder"),
        (entry("x/a\nb", b"x"), "characters that make trouble"),
        (entry("y/SKILL.md", b"x"), "several skills"),
    ] {
        let error = refused(&[skill(), entry]);
        assert!(error.contains(reason), "{error}");
    }
    let folder_first = refused(&[skill(), entry("x/a/b", b""), entry("x/A", b"")]);
    assert!(folder_first.contains("as a file and a folder"), "{folder_first}");
}

#[test]
fn what_cannot_be_unpacked_is_named_with_what_to_do() {
    let locked = Entry { flags: 1, ..stored("x/locked", b"secret") };
    let error = refused(&[skill(), locked.clone()]);
    assert!(error.contains("\"x/locked\", which is encrypted; unpack it"), "{error}");
    let odd = Entry { method: 93, ..stored("x/odd", b"x") };
    let error = refused(&[skill(), odd]);
    assert!(error.contains("packed in a way that is not read here; unpack it"), "{error}");
    // What is left out anyway may be as it likes.
    let hidden = Entry { name: b"x/.git/locked".to_vec(), ..locked };
    assert!(open(&zip(&[skill(), hidden])).is_ok());
    let wrong = Entry { crc: 1, ..entry("x/wrong", b"words") };
    assert!(refused(&[skill(), wrong]).contains("cannot be unpacked"));
}

#[test]
fn zip_bombs_are_refused_whatever_they_say_of_their_sizes() {
    let large = vec![0; usize::try_from(MAX_BYTES).unwrap()];
    let bomb = entry("x/large", &large);
    assert!(bomb.packed.len() < 1 << 20);
    assert!(refused(&[skill(), bomb.clone()]).contains("32 MiB"));
    // One that says it is small, and one that says it is as large as can be.
    let liar = Entry { size: 10, ..bomb };
    assert!(refused(&[skill(), liar]).contains("cannot be unpacked"));
    let boaster = Entry { size: u32::MAX - 1, ..entry("x/small", b"small") };
    assert_eq!(open(&zip(&[skill(), boaster])).unwrap().files.len(), 2);
    let many = |count: usize, at: &str| -> Vec<Entry> {
        let named = (0..count).map(|number| stored(&format!("x/{at}{number}"), b""));
        std::iter::once(skill()).chain(named).collect()
    };
    assert_eq!(open(&zip(&many(MAX_FILES - 1, ""))).unwrap().files.len(), MAX_FILES);
    assert!(refused(&many(MAX_FILES, "")).contains("2000 files"));
    // Folders count as well, where a sandbox is shown them.
    assert!(refused(&many(MAX_FILES - 1, "in/")).contains("2000 files and folders"));
    assert!(refused(&many(MAX_ENTRIES, ".")).contains("20000 entries"));
    let long = "y".repeat(usize::from(u16::MAX) - 10);
    let listing = many(usize::try_from(MAX_LISTING).unwrap() / long.len() + 1, &long);
    assert!(refused(&listing).contains("too long"));
}

#[test]
fn damaged_zips_are_refused() {
    let whole = zip(&[skill(), entry("x/a", b"words")]);
    assert!(open(&whole).is_ok());
    for end in [4, 30, whole.len() / 2, whole.len() - 1] {
        let error = open(&whole[..end]).unwrap_err();
        assert!(error.contains("damaged"), "{end}: {error}");
    }
    assert!(open(&zip(&[])).unwrap_err().contains("no SKILL.md"));
    let nameless = Entry { name: Vec::new(), ..entry("", b"x") };
    assert!(open(&zip(&[skill(), nameless])).is_ok(), "what has no name is nowhere");
    // Names from before there was one alphabet for all are read as those of their time.
    let old = Entry { name: b"x/\x81".to_vec(), ..entry("", b"x") };
    assert!(open(&zip(&[skill(), old])).unwrap().files.contains_key(Path::new("ü")));
}

proptest::proptest! {
    #[test]
    fn no_change_of_a_zip_makes_it_panic(
        changes in proptest::collection::vec((0_usize..2000, proptest::prelude::any::<u8>()), 1..4),
    ) {
        let mut archive = zip(&[skill(), stored("x/a", b"a"), entry("x/b", b"bb")]);
        for (at, byte) in changes {
            let at = at % archive.len();
            archive[at] = byte;
        }
        drop(open(&archive));
    }
}
