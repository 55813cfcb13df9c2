//! Many writers of one file at once.

use super::*;

#[test]
fn one_of_many_makers_makes_a_new_file() {
    let test_dir = TestDir::new();
    let made = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let request = FileWrite { create: CreateMode::New, ..request("file") };
                if run(&test_dir, &request, b"mine").is_ok() {
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
    assert_eq!(test_dir.names(), ["file"]);
}

#[test]
fn of_writers_that_expect_one_version_one_succeeds() {
    let test_dir = TestDir::new();
    let mut version = run(&test_dir, &request("file"), b"0").unwrap().metadata.version;
    for _ in 0..50 {
        let results: Vec<_> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u8)
                .map(|n| {
                    let test_dir = &test_dir;
                    scope.spawn(move || {
                        run(test_dir, &FileWrite { expect: Some(version), ..request("file") }, &[n])
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let mut done = results.into_iter().filter_map(Result::ok);
        version = done.next().unwrap().metadata.version;
        assert!(done.next().is_none());
    }
}

#[test]
fn readers_and_writers_at_once_never_see_a_mix() {
    let test_dir = TestDir::new();
    run(&test_dir, &request("file"), &vec![0; 200_000]).unwrap();
    let writing = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (1..4_u8)
            .map(|n| {
                let test_dir = &test_dir;
                scope.spawn(move || {
                    for round in 0..40 {
                        let content = vec![n; 100_000 + usize::from(n) * 1000 + round];
                        run(test_dir, &request("file"), &content).unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while writing.load(Ordering::Relaxed) {
                    let content = test_dir.get("file");
                    assert!(content.len() >= 100_000);
                    assert!(content.iter().all(|byte| *byte == content[0]));
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        writing.store(false, Ordering::Relaxed);
    });
    assert_eq!(test_dir.names(), ["file"]);
}

#[test]
fn writers_through_different_names_of_a_file_never_make_a_mix() {
    let test_dir = TestDir::new();
    let path = test_dir.put("one", b"");
    std::fs::hard_link(&path, test_dir.path("two")).unwrap();
    std::thread::scope(|scope| {
        for (n, name) in [(1_u8, "one"), (2, "two"), (3, "one")] {
            let test_dir = &test_dir;
            scope.spawn(move || {
                for round in 0..20 {
                    let content = vec![n; 300_000 + usize::from(n) * 1000 + round];
                    assert!(run(test_dir, &request(name), &content).unwrap().in_place);
                }
            });
        }
    });
    let content = test_dir.get("one");
    assert!(content.iter().all(|byte| *byte == content[0]));
}
