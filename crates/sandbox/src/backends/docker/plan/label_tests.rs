//! Labels: ours come back, a stranger's do no harm.

use std::collections::HashMap;

use proptest::prelude::*;

use super::labels::{ContainerLabels, label};
use super::testing::{Bench, INSTANCE};
use crate::backend::Owner;

fn ours() -> HashMap<String, String> {
    Bench::new().plan().body.labels.unwrap()
}

#[test]
fn what_labels_say_is_read_back() {
    let bench = Bench::new();
    let expected = ContainerLabels {
        key: bench.key.hash(),
        home: "feedface".into(),
        instance: INSTANCE.into(),
        task: "my_task".into(),
        profile: "default".into(),
        generation: 3,
        persistent: true,
        owner: None,
        spec: "c0ffee".into(),
        image: Some("debian:12".into()),
    };
    assert_eq!(ContainerLabels::parse(&ours()), Some(expected));
}

#[test]
fn a_container_without_all_of_our_labels_is_not_ours() {
    let needed = [
        label::AGENT,
        label::KEY,
        label::HOME,
        label::INSTANCE,
        label::SPEC,
        label::PERSIST,
        label::GENERATION,
    ];
    for name in needed {
        let mut labels = ours();
        labels.remove(name);
        assert_eq!(ContainerLabels::parse(&labels), None, "{name}");
        for wrong in ["", "x/../y", "\u{1b}[31m", &"x".repeat(10_000)] {
            labels.insert(name.to_owned(), wrong.to_owned());
            assert_eq!(ContainerLabels::parse(&labels), None, "{name}={wrong}");
        }
    }
    assert_eq!(ContainerLabels::parse(&HashMap::new()), None);
}

#[test]
fn labels_that_do_not_decide_are_made_harmless() {
    let mut labels = ours();
    labels.insert(label::TASK.to_owned(), "\u{1b}[31m/../".to_owned());
    labels.remove(label::PROFILE);
    labels.insert(label::IMAGE.to_owned(), "a\u{1b}b".to_owned());
    labels.insert(label::OWNER.to_owned(), "{".repeat(5000));
    let marks = ContainerLabels::parse(&labels).unwrap();
    assert_eq!(marks.task, "__31m_.._");
    assert_eq!(marks.profile, "unknown");
    assert_eq!((marks.image, marks.owner), (None, None));
}

#[test]
fn an_owner_that_came_with_the_image_is_not_the_containers() {
    let owner = serde_json::to_string(&Owner::current("docker").unwrap()).unwrap();
    let mut labels = ours();
    labels.insert(label::OWNER.to_owned(), owner);
    assert_eq!(ContainerLabels::parse(&labels).unwrap().owner, None);
    labels.insert(label::PERSIST.to_owned(), "0".to_owned());
    assert!(ContainerLabels::parse(&labels).unwrap().owner.is_some());
}

#[test]
fn labels_of_the_user_come_along_and_never_stand_for_ours() {
    let bench = Bench::with(&[r#"terminal.docker_extra_args=["--label", "team=red", "-lx"]"#]);
    let labels = bench.plan().body.labels.unwrap();
    assert_eq!(labels["team"], "red");
    assert_eq!(labels["x"], "");
    assert_eq!(labels[label::AGENT], "1");
}

proptest! {
    #[test]
    fn no_labels_are_too_odd_to_be_read(
        values in proptest::collection::hash_map(
            prop_oneof![
                Just(label::AGENT), Just(label::KEY), Just(label::HOME), Just(label::INSTANCE),
                Just(label::SPEC), Just(label::PERSIST), Just(label::GENERATION),
                Just(label::OWNER), Just(label::TASK),
            ],
            any::<String>(),
            0..9,
        ),
    ) {
        let mut labels = ours();
        labels.extend(values.into_iter().map(|(name, value)| (name.to_owned(), value)));
        if let Some(marks) = ContainerLabels::parse(&labels) {
            for id in [&marks.key, &marks.home, &marks.instance, &marks.spec] {
                prop_assert!(id.len() <= 64 && id.bytes().all(|b| b.is_ascii_graphic()));
            }
        }
    }
}
