//! Processes that race and are killed at random times.

use std::collections::BTreeMap;
use std::time::Duration;

use vestal_sandbox::{FilesOnRemoval, TaskName};
use vestal_testkit::random::{Random, soak};

use crate::support::{EngineFixture, Worker, until};

pub(crate) async fn a_soak_of_racing_and_dying_processes_leaves_one_sandbox(
    fixture: EngineFixture,
) {
    let rounds = soak("VESTAL_SOAK_ROUNDS", 20);
    let seed = soak("VESTAL_SOAK_SEED", 20_260_101);
    let mut random = Random::new(seed);
    fixture.out("echo kept > ~/file").await;
    for round in 0..rounds {
        let about = format!("seed {seed}, round {round}");
        let text = format!("echo {round} >> ran-{round}; sleep 0.{:02}", random.below(40));
        // One that may be killed at any time, and up to two that are in its way.
        let mut workers = vec![match random.below(6) {
            0 => fixture.worker(&["stop", "default"]),
            1 => fixture.worker(&["remove", "default"]),
            2 => fixture.worker(&["attach", "default"]),
            _ => fixture.worker(&["run", "default", &text]),
        }];
        for _ in 0..random.below(3) {
            let verb = ["attach", "stop", "remove"][usize::try_from(random.below(3)).unwrap()];
            workers.push(fixture.worker(&[verb, "default"]));
        }
        // A creation takes about a second, an attach a hundredth of that.
        let most = [20, 200, 1500][usize::try_from(random.below(3)).unwrap()];
        tokio::time::sleep(Duration::from_millis(random.below(most))).await;
        drop(workers[0].child.start_kill());
        if random.below(4) == 0 {
            for listed in fixture.containers() {
                if listed["State"] == "running" {
                    let id = listed["Id"].as_str().unwrap();
                    fixture.api.try_ask("POST", &format!("/containers/{id}/kill"), None);
                }
            }
        }
        for worker in workers {
            ended(worker, &about).await;
        }
        let lines = fixture.out(&format!("cat ran-{round} 2>/dev/null || true")).await;
        assert!(lines.lines().count() <= 1, "{about}: ran twice");
        // One later start puts everything right.
        assert_eq!(fixture.out("cat ~/file").await, "kept\n", "{about}");
        assert_one(&fixture, &about);
    }
    clear_errands(&fixture).await;
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    fixture.finish().await;
}

async fn ended(worker: Worker, about: &str) {
    let end = tokio::time::timeout(Duration::from_mins(3), worker.last_word());
    end.await.unwrap_or_else(|_| panic!("{about}: a worker does not end"));
}

/// Checks that one container runs and that no other one is left, but for those
/// of errands: nobody waits for their answers to a dead process, and they
/// go with the reaper.
fn assert_one(fixture: &EngineFixture, about: &str) {
    let mut seen: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for listed in fixture.containers() {
        let kind = match &listed["Labels"]["vestal-errand"] {
            serde_json::Value::Null => "sandbox",
            _ => "errand",
        };
        let state = listed["State"].as_str().unwrap().to_owned();
        seen.entry(kind).or_default().push(state);
    }
    assert_eq!(seen.get("sandbox"), Some(&vec!["running".to_owned()]), "{about}: {seen:?}");
}

/// Removes what the reaper would, given time.
async fn clear_errands(fixture: &EngineFixture) {
    for listed in fixture.containers() {
        if listed["Labels"]["vestal-errand"].is_null() {
            continue;
        }
        let id = listed["Id"].as_str().unwrap().to_owned();
        until("an errand ends by itself", || async {
            fixture.api.inspect(&id).is_none_or(|seen| seen["State"]["Running"] == false)
        })
        .await;
        fixture.api.remove(&id);
    }
}
