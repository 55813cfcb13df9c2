use super::*;
use crate::testing::TestHome;

/// The order that users are promised, written out here so that a change of the
/// code cannot change what is expected of it.
const PROMISED: [SettingLayer; 4] = [
    SettingLayer::CommandLine,
    SettingLayer::Environment,
    SettingLayer::DotEnv,
    SettingLayer::File,
];

/// One key set in some places, to values that differ from place to place.
fn settings_with(key: &dyn AnyKey, places: &[SettingLayer]) -> (TestHome, Settings, Vec<String>) {
    let examples = key.examples();
    let mut home = TestHome::new();
    let (mut env, mut sets, mut given) = (Vec::new(), Vec::new(), Vec::new());
    for (at, layer) in places.iter().enumerate() {
        let value = examples[at % 2].clone();
        given.push(value.clone());
        match layer {
            SettingLayer::CommandLine => sets.push(Override::new(key.name(), &value)),
            SettingLayer::Environment => env.push((key.env()[0], value)),
            SettingLayer::DotEnv => home = home.dotenv(format!("{}='{value}'\n", key.env()[0])),
            SettingLayer::File => home = home.config(in_file(key.name(), &value)),
        }
    }
    let settings =
        Settings::load(&crate::schema(), home.home(), Environment::from_pairs(env), sets);
    (home, settings, given)
}

/// A file that sets a key, below its section if it is in one.
fn in_file(name: &str, value: &str) -> String {
    let last = name.split('.').count() - 1;
    let line = |(depth, part): (usize, &str)| {
        let value = if depth == last { format!(" {value}") } else { String::new() };
        format!("{}{part}:{value}\n", "  ".repeat(depth))
    };
    name.split('.').enumerate().map(line).collect()
}

fn layer_of(source: &ValueSource) -> Option<SettingLayer> {
    match source {
        ValueSource::CommandLine { .. } | ValueSource::Option { .. } => {
            Some(SettingLayer::CommandLine)
        }
        ValueSource::Environment { .. } => Some(SettingLayer::Environment),
        ValueSource::DotEnv { .. } => Some(SettingLayer::DotEnv),
        ValueSource::File { .. } => Some(SettingLayer::File),
        ValueSource::Default => None,
    }
}

#[test]
fn every_key_is_taken_from_the_highest_place_that_has_it() {
    for key in crate::schema().keys() {
        for chosen in 0..16_u8 {
            let places: Vec<SettingLayer> =
                (0..4).filter(|bit| chosen & (1 << bit) != 0).map(|bit| PROMISED[bit]).collect();
            let (_home, settings, given) = settings_with(key, &places);
            let resolved = key.resolve(&settings).expect("examples are allowed");
            let name = key.name();
            assert_eq!(layer_of(&resolved.source), places.first().copied(), "{name} {places:?}");
            let expected = match given.first() {
                None => key.default_untyped(),
                Some(text) => {
                    let given = Override::new(name, text);
                    key.read_untyped(given.input()).expect("allowed").expect("a value")
                }
            };
            assert_eq!(resolved.value, expected, "{name} {places:?}");
        }
    }
}

#[test]
fn every_name_of_every_key_works() {
    for key in crate::schema().keys() {
        let value = &key.examples()[0];
        for name in key.env() {
            let env = Environment::from_pairs([(*name, value)]);
            let settings =
                Settings::load(&crate::schema(), TestHome::new().home(), env, Vec::new());
            let source = key.resolve(&settings).expect("allowed").source;
            assert_eq!(source, ValueSource::Environment { name: (*name).to_owned() });
        }
        for alias in key.aliases() {
            let home = TestHome::with_config(in_file(alias, value));
            let source = key.resolve(&home.settings(&[], &[])).expect("allowed").source;
            assert_eq!(layer_of(&source), Some(SettingLayer::File), "{alias}");
        }
    }
}

#[test]
fn the_schema_is_sound() {
    let mut names = crate::schema().names();
    let mut variables: Vec<_> =
        crate::schema().keys().flat_map(|key| key.env().iter().copied()).collect();
    for list in [&mut names, &mut variables] {
        let count = list.len();
        list.sort_unstable();
        list.dedup();
        assert_eq!(list.len(), count, "a name is declared twice");
    }
    for key in crate::schema().keys() {
        let name = key.name();
        assert!(!key.env().is_empty() && !key.doc().is_empty(), "{name}");
        assert!(!crate::schema().is_reserved(name), "{name} is declared and reserved");
        let values: Vec<_> = key
            .examples()
            .iter()
            .map(|text| {
                key.read_untyped(Override::new(name, text).input())
                    .expect("allowed")
                    .expect("a value")
            })
            .collect();
        assert_ne!(values[0], values[1], "{name}");
    }
}
