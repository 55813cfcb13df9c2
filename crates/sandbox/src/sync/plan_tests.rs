use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::sync::agreement::{RootMark, Terms};
use crate::sync::intent::{SyncIntent, note_made};

/// What a test has at a path: directories come by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Thing {
    File(u8),
    Executable(u8),
    Link,
    Directory,
}

type Model = BTreeMap<Vec<u8>, State>;

fn file(content: u8) -> State {
    State::File { hash: [content; 32], executable: false }
}

/// Returns a tree in which every path has its directories; what is in the way of one goes.
fn tree(things: &BTreeMap<Vec<u8>, Thing>) -> Model {
    let mut model = Model::new();
    for (path, thing) in things {
        let mut above = parent(path);
        while let Some(directory) = above {
            model.insert(directory.to_vec(), State::Directory);
            above = parent(directory);
        }
        let state = match thing {
            Thing::File(content) => file(*content),
            Thing::Executable(content) => State::File { hash: [*content; 32], executable: true },
            Thing::Link => State::Link { target: b"a".to_vec() },
            Thing::Directory => State::Directory,
        };
        model.entry(path.clone()).or_insert(state);
    }
    // A path that came first is a directory if something is in it.
    let directories: Vec<_> =
        model.keys().filter_map(|path| parent(path)).map(<[u8]>::to_vec).collect();
    for directory in directories {
        model.insert(directory, State::Directory);
    }
    model
}

fn paths() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just("a"), Just("b"), Just("b-"), Just("c")], 1..4)
        .prop_map(|parts| parts.join("/").into_bytes())
}

fn things(contents: std::ops::Range<u8>) -> impl Strategy<Value = BTreeMap<Vec<u8>, Thing>> {
    let thing = prop_oneof![
        4 => contents.clone().prop_map(Thing::File),
        1 => contents.prop_map(Thing::Executable),
        1 => Just(Thing::Link),
        1 => Just(Thing::Directory),
    ];
    btree_map(paths(), thing, 0..8)
}

/// A base, and two trees that are what became of it.
fn triples() -> impl Strategy<Value = (Model, Model, Model)> {
    let edits = |contents: std::ops::Range<u8>| (things(contents), vec(paths(), 0..4));
    (things(0..10), edits(10..20), edits(20..30)).prop_map(|(base, here, there)| {
        let edited = |(changed, deleted): (BTreeMap<Vec<u8>, Thing>, Vec<Vec<u8>>)| {
            let mut all = base.clone();
            all.retain(|path, _| {
                !deleted
                    .iter()
                    .any(|gone| path == gone || path.starts_with(&[gone, &b"/"[..]].concat()))
            });
            for (path, thing) in changed {
                all.retain(|other, _| !other.starts_with(&[&path, &b"/"[..]].concat()));
                all.insert(path, thing);
            }
            tree(&all)
        };
        (tree(&base), edited(here), edited(there))
    })
}

fn view(model: &Model, holding: &BTreeSet<Vec<u8>>) -> View {
    let item = |state: &State| Item {
        state: Ok(state.clone()),
        stamp: Stamp::default(),
        mode: if matches!(state, State::File { executable: true, .. }) { 0o755 } else { 0o644 },
    };
    let items: BTreeMap<_, _> =
        model.iter().map(|(path, state)| (path.clone(), item(state))).collect();
    let holding = holding.iter().filter(|path| model.get(*path) == Some(&State::Directory));
    View { items, closed: BTreeSet::new(), holding: holding.cloned().collect() }
}

/// Carries a plan out as strictly as a filesystem does.
fn carry_out(plan: &Plan, here: &mut Model, there: &mut Model, holding: &mut BTreeSet<Vec<u8>>) {
    for SyncStep { end, path, action } in &plan.steps {
        let model = match end {
            End::Here => &mut *here,
            End::There => &mut *there,
        };
        if let Some(directory) = parent(path) {
            assert_eq!(model.get(directory), Some(&State::Directory), "{plan:#?}");
        }
        let inside = [path, &b"/"[..]].concat();
        match action {
            SyncAction::SetAside { name } => {
                let new = crate::sync::join(parent(path).unwrap_or_default(), name);
                assert!(!model.contains_key(&new));
                let state = model.remove(path).unwrap();
                let below: Vec<_> =
                    model.keys().filter(|other| other.starts_with(&inside)).cloned().collect();
                for old in below {
                    let state = model.remove(&old).unwrap();
                    model.insert([&new, &old[path.len()..]].concat(), state);
                }
                model.insert(new.clone(), state);
                let held: Vec<_> = holding
                    .iter()
                    .filter(|held| *held == path || held.starts_with(&inside))
                    .cloned()
                    .collect();
                holding.extend(held.iter().map(|old| [&new, &old[path.len()..]].concat()));
            }
            SyncAction::Executable { executable, .. } => {
                let Some(State::File { executable: now, .. }) = model.get_mut(path) else {
                    panic!("{plan:#?}")
                };
                *now = *executable;
            }
            SyncAction::Delete { .. } => {
                let was = model.remove(path);
                assert!(was.is_some_and(|was| was != State::Directory), "{plan:#?}");
            }
            SyncAction::RemoveDirectory => {
                assert!(!model.keys().any(|other| other.starts_with(&inside)), "{plan:#?}");
                assert!(!holding.contains(path), "{plan:#?}");
                assert_eq!(model.remove(path), Some(State::Directory));
            }
            SyncAction::MakeDirectory { .. } => {
                assert_eq!(model.insert(path.clone(), State::Directory), None, "{plan:#?}");
            }
            SyncAction::Copy { hash, mode, replaces, .. } => {
                let new = State::File { hash: *hash, executable: mode & 0o100 != 0 };
                let was = model.insert(path.clone(), new);
                assert_eq!(was.is_some(), replaces.is_some(), "{plan:#?}");
                assert!(was != Some(State::Directory), "{plan:#?}");
            }
            SyncAction::Link { target, replaces } => {
                let was = model.insert(path.clone(), State::Link { target: target.clone() });
                assert_eq!(was.is_some(), replaces.is_some(), "{plan:#?}");
                assert!(was != Some(State::Directory), "{plan:#?}");
            }
        }
    }
}

fn contents(model: &Model) -> BTreeSet<[u8; 32]> {
    model
        .values()
        .filter_map(|state| match state {
            State::File { hash, .. } => Some(*hash),
            _ => None,
        })
        .collect()
}

/// Returns the files that were changed since the base, by their content.
fn changed(model: &Model, base: &Model) -> BTreeSet<[u8; 32]> {
    let changed = model.iter().filter(|(path, state)| base.get(*path) != Some(state));
    contents(&changed.map(|(path, state)| (path.clone(), state.clone())).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn both_sides_come_to_agree_and_no_version_is_lost((base, here, there) in triples()) {
        let (mut now_here, mut now_there) = (here.clone(), there.clone());
        let mut agreed = base.clone();
        let none = BTreeSet::new();
        for round in 0.. {
            let (one, other) = (view(&now_here, &none), view(&now_there, &none));
            let made = plan(&agreed, &one, &other, SyncDirection::Both);
            agreed = made.agreed.clone();
            if made.steps.is_empty() {
                break;
            }
            prop_assert!(round < 4, "{:#?}", made);
            carry_out(&made, &mut now_here, &mut now_there, &mut BTreeSet::new());
            let (one, other) = (view(&now_here, &none), view(&now_there, &none));
            note_made(&mut agreed, &made.steps, &one, &other);
        }
        prop_assert_eq!(&now_here, &now_there);
        prop_assert_eq!(&agreed, &now_here);
        let kept = contents(&now_here);
        for version in changed(&here, &base).union(&changed(&there, &base)) {
            prop_assert!(kept.contains(version), "{:?} is lost", version[0]);
        }
        // And what only one side changed is what that side has.
        for (path, state) in &here {
            if there.get(path) == base.get(path)
                && matches!(state, State::File { .. })
                && base.get(path) != Some(state)
            {
                let parents_clash = beneath(path, &there.iter().filter(|(path, state)| {
                    **state != State::Directory && base.get(*path) != Some(state)
                }).map(|(path, _)| path.clone()).collect());
                prop_assert!(now_here.get(path) == Some(state) || parents_clash);
            }
        }
    }

    #[test]
    fn a_sync_that_is_cut_off_anywhere_is_finished_by_the_next(
        (base, here, there) in triples(),
        cuts in vec(0_usize..12, 0..4),
    ) {
        let (mut now_here, mut now_there) = (here.clone(), there.clone());
        let none = BTreeSet::new();
        // The agreement is written last, so after a cut it is the old one.
        let store = tempfile::tempdir().unwrap();
        let mut intent = SyncIntent::new(&Terms {
            here: RootMark::default(),
            there: RootMark::default(),
            ignore: Vec::new().into(),
        });
        for cut in cuts {
            let (one, other) = (view(&now_here, &none), view(&now_there, &none));
            let mut agreed = base.clone();
            intent.note(&mut agreed, &one, &other);
            let mut made = plan(&agreed, &one, &other, SyncDirection::Both);
            intent.add(store.path(), &made.steps).unwrap();
            made.steps.truncate(cut);
            carry_out(&made, &mut now_here, &mut now_there, &mut BTreeSet::new());
        }
        for round in 0.. {
            let (one, other) = (view(&now_here, &none), view(&now_there, &none));
            let mut agreed = base.clone();
            intent.note(&mut agreed, &one, &other);
            let made = plan(&agreed, &one, &other, SyncDirection::Both);
            intent.add(store.path(), &made.steps).unwrap();
            if made.steps.is_empty() {
                break;
            }
            prop_assert!(round < 4, "{:#?}", made);
            carry_out(&made, &mut now_here, &mut now_there, &mut BTreeSet::new());
        }
        prop_assert_eq!(&now_here, &now_there);
        let kept = contents(&now_here);
        for version in changed(&here, &base).union(&changed(&there, &base)) {
            prop_assert!(kept.contains(version), "{:?} is lost", version[0]);
        }
    }

    #[test]
    fn what_takes_no_part_is_in_nobodys_way_and_stays(
        (base, here, there) in triples(),
        held_here in vec(paths(), 0..3),
        held_there in vec(paths(), 0..3),
    ) {
        let (mut now_here, mut now_there) = (here.clone(), there.clone());
        let is_directory = |model: &Model, path: &Vec<u8>| {
            model.get(path) == Some(&State::Directory)
        };
        let mut hold_here: BTreeSet<_> =
            held_here.into_iter().filter(|path| is_directory(&here, path)).collect();
        let mut hold_there: BTreeSet<_> =
            held_there.into_iter().filter(|path| is_directory(&there, path)).collect();
        let kept_here = hold_here.clone();
        for round in 0.. {
            let (one, other) = (view(&now_here, &hold_here), view(&now_there, &hold_there));
            let made = plan(&base, &one, &other, SyncDirection::Both);
            if made.steps.is_empty() {
                break;
            }
            prop_assert!(round < 6, "{:#?}", made);
            let mut sides = made.clone();
            sides.steps.retain(|step| step.end == End::Here);
            carry_out(&sides, &mut now_here, &mut now_there, &mut hold_here);
            sides = made.clone();
            sides.steps.retain(|step| step.end == End::There);
            carry_out(&sides, &mut now_here, &mut now_there, &mut hold_there);
        }
        for path in kept_here {
            prop_assert!(is_directory(&now_here, &path));
        }
        let kept: BTreeSet<_> = contents(&now_here).union(&contents(&now_there)).copied().collect();
        for version in changed(&here, &base).union(&changed(&there, &base)) {
            prop_assert!(kept.contains(version), "{:?} is lost", version[0]);
        }
    }

    #[test]
    fn one_way_the_sandbox_becomes_what_is_here_and_keeps_its_own(
        (base, here, there) in triples(),
    ) {
        let (mut now_here, mut now_there) = (here.clone(), there.clone());
        let none = BTreeSet::new();
        let mut agreed = base.clone();
        for round in 0.. {
            let (one, other) = (view(&now_here, &none), view(&now_there, &none));
            let made = plan(&agreed, &one, &other, SyncDirection::Out);
            agreed = made.agreed.clone();
            if made.steps.is_empty() {
                break;
            }
            prop_assert!(round < 4, "{:#?}", made);
            carry_out(&made, &mut now_here, &mut now_there, &mut BTreeSet::new());
        }
        prop_assert_eq!(&now_here, &here, "nothing is ever written here");
        for (path, state) in &here {
            prop_assert_eq!(now_there.get(path), Some(state));
        }
        for (path, state) in &now_there {
            let is_own = there.get(path) == Some(state) && !base.contains_key(path);
            let holds = *state == State::Directory;
            let aside = String::from_utf8_lossy(path).contains(".conflict-");
            prop_assert!(here.contains_key(path) || is_own || holds || aside, "{:?}", path);
        }
    }
}

fn one(path: &str, state: State) -> View {
    view(&Model::from([(path.as_bytes().to_vec(), state)]), &BTreeSet::new())
}

#[test]
fn a_sandbox_does_not_change_the_rules_of_what_is_kept_from_it() {
    let rules = IGNORE_FILE.as_bytes().to_vec();
    let base = AgreedStates::from([(rules.clone(), file(0))]);
    // Emptied, removed, or made where there is none.
    for (base, here, there) in [
        (&base, one(IGNORE_FILE, file(0)), one(IGNORE_FILE, file(1))),
        (&base, one(IGNORE_FILE, file(0)), View::default()),
        (&AgreedStates::new(), View::default(), one(IGNORE_FILE, file(1))),
    ] {
        let made = plan(base, &here, &there, SyncDirection::Both);
        assert!(made.steps.iter().all(|step| step.end == End::There), "{made:?}");
        assert_eq!(made.remarks, []);
    }
    // One below the top is a file like others.
    let below = plan(
        &AgreedStates::new(),
        &View::default(),
        &one("a.vestalignore", file(1)),
        SyncDirection::Both,
    );
    assert!(below.steps.iter().any(|step| step.end == End::Here), "{below:?}");
}

#[test]
fn what_changed_on_both_sides_keeps_both_versions_and_says_so() {
    let base = AgreedStates::from([(b"report.txt".to_vec(), file(0))]);
    let made =
        plan(&base, &one("report.txt", file(1)), &one("report.txt", file(2)), SyncDirection::Both);
    let [SyncStep { end: End::There, path, action: SyncAction::SetAside { name } }] =
        &made.steps[..]
    else {
        panic!("{made:?}")
    };
    assert_eq!(path, b"report.txt");
    let name = String::from_utf8(name.clone()).unwrap();
    assert!(name.starts_with("report.txt.conflict-") && name.len() == 28, "{name}");
    let kept_as = name.into_bytes();
    assert_eq!(made.remarks, [(b"report.txt".to_vec(), Remark::Conflict { kept_as })]);
    assert_eq!(made.agreed, base);
}

#[test]
fn a_name_set_aside_fits_and_is_free() {
    let long = "ä".repeat(127);
    let made =
        plan(&AgreedStates::new(), &one(&long, file(1)), &one(&long, file(2)), SyncDirection::Both);
    let SyncAction::SetAside { name } = &made.steps[0].action else { panic!("{made:?}") };
    assert!(name.len() <= 255 && std::str::from_utf8(name).is_ok());
    let mut there = one(&long, file(2));
    let taken = one(std::str::from_utf8(name).unwrap(), file(3));
    there.items.extend(taken.items);
    let again = plan(&AgreedStates::new(), &one(&long, file(1)), &there, SyncDirection::Both);
    let SyncAction::SetAside { name: other } = &again.steps[0].action else { panic!("{again:?}") };
    assert!(other != name && other.len() <= 255);
}

#[test]
fn a_link_that_leads_out_is_not_made_here_and_goes_out_as_it_is() {
    for (path, target, inside) in [
        ("link", "file", true),
        ("a/link", "../b/file", true),
        ("a/b/link", "../../x", true),
        ("link", "/etc/passwd", false),
        ("link", "../x", false),
        ("a/link", "../../x", false),
        // `b` may itself be a link to somewhere higher up.
        ("a/link", "b/../../x", false),
        ("a/link", "b/../x", false),
        ("link", "", false),
    ] {
        let link = State::Link { target: target.as_bytes().to_vec() };
        let mut there = one(path, link.clone());
        for directory in ["a", "a/b"] {
            there.items.extend(one(directory, State::Directory).items);
        }
        let here = View { items: there.items.clone(), ..View::default() };
        let here = View {
            items: here.items.into_iter().filter(|(other, _)| other != path.as_bytes()).collect(),
            ..View::default()
        };
        let made = plan(&AgreedStates::new(), &here, &there, SyncDirection::Both);
        assert_eq!(made.steps.len(), usize::from(inside), "{path} -> {target}");
        assert_eq!(made.remarks.len(), usize::from(!inside), "{path} -> {target}");
        let out = plan(&AgreedStates::new(), &there, &here, SyncDirection::Both);
        assert_eq!(out.steps.len(), 1, "{path} -> {target}");
    }
}

#[test]
fn what_is_in_a_directory_that_cannot_be_read_is_not_taken_for_deleted() {
    let base = tree(&BTreeMap::from([(b"a/b/x".to_vec(), Thing::File(0))]));
    let here = view(&base, &BTreeSet::new());
    let mut there = view(
        &Model::from([(b"a".to_vec(), State::Directory), (b"a/b".to_vec(), State::Directory)]),
        &BTreeSet::new(),
    );
    there.closed.insert(b"a/b".to_vec());
    let made = plan(&base, &here, &there, SyncDirection::Both);
    assert_eq!((made.steps, made.agreed), (Vec::new(), base));
}

#[test]
fn a_bit_that_differs_moves_no_content() {
    let base = AgreedStates::from([(b"x".to_vec(), file(1))]);
    let there = one("x", State::File { hash: [1; 32], executable: true });
    let made = plan(&base, &one("x", file(1)), &there, SyncDirection::Both);
    let action =
        SyncAction::Executable { hash: [1; 32], executable: true, stamp: Stamp::default() };
    assert_eq!(made.steps, [SyncStep { end: End::Here, path: b"x".to_vec(), action }]);
}
