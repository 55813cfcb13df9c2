//! What `vestal doctor` says of a machine.

use jiff::{SignedDuration, Timestamp};
use vestal_wire::machine::{MachineReply, MachineRequest};

use super::backend::shown;
use super::machine::Machine;
use crate::ProgressSink;
use crate::backend::BackendError;
use crate::backends::docker::one_line;

/// How far the clocks may be apart before it is worth a note.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(1);

/// Free space below which it is worth a note.
const LITTLE_SPACE: u64 = 256 << 20;

/// What is known of a machine that answers.
#[derive(Debug)]
pub(super) struct MachineNotes {
    /// Which machine it is, and how fast it answers.
    pub(super) identity: Vec<String>,
    /// What may become a problem.
    pub(super) concerns: Vec<String>,
}

/// Asks a machine what it is.
pub(super) async fn look(machine: &Machine) -> Result<MachineNotes, BackendError> {
    // The first request may have to log in and to send the guest.
    machine.ask(&MachineRequest::Look, &ProgressSink::default()).await?;
    let asked = Timestamp::now();
    let reply = machine.ask(&MachineRequest::Look, &ProgressSink::default()).await?;
    let MachineReply::Facts(facts) = reply else {
        return Err(machine.unexpected(reply));
    };
    let answered = Timestamp::now();
    let identity = vec![
        format!(
            "{} is {}, Linux {} on {}, as {}",
            machine.login(),
            one_line(&facts.name.host),
            one_line(&facts.kernel),
            machine.architecture()?,
            one_line(&facts.user)
        ),
        format!(
            "answers in {} ms; all of Vestal's is in {}",
            answered.duration_since(asked).as_millis(),
            one_line(&shown(&facts.root))
        ),
    ];
    let mut concerns: Vec<String> =
        clock_note(facts.clock_ms, asked, answered).into_iter().collect();
    if facts.free_bytes < LITTLE_SPACE {
        concerns.push(format!(
            "only {} MiB are free there: what a command writes may not fit",
            facts.free_bytes >> 20
        ));
    }
    Ok(MachineNotes { identity, concerns })
}

/// Says how far a clock is from this machine's, if that is worth a note. It told the time between
/// these two moments.
fn clock_note(clock_ms: u64, asked: Timestamp, answered: Timestamp) -> Option<String> {
    let clock = Timestamp::from_millisecond(i64::try_from(clock_ms).ok()?).ok()?;
    let (behind, ahead) = (asked.duration_since(clock), clock.duration_since(answered));
    if behind > CLOCKS_APART {
        return Some(format!("its clock is {behind:#} behind this machine's"));
    }
    (ahead > CLOCKS_APART).then(|| format!("its clock is {ahead:#} ahead of this machine's"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_by_a_day_is_reported_and_one_that_agrees_is_not() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let note = |clock: u64| clock_note(clock * 1000, at(100_000), at(100_090));
        for fine in [100_000, 100_045, 100_090, 99_950, 100_140] {
            assert_eq!(note(fine), None, "{fine}");
        }
        let behind = note(100_000 - 86_400).unwrap();
        assert!(behind.contains("24h") && behind.contains("behind"), "{behind}");
        let ahead = note(100_090 + 86_400).unwrap();
        assert!(ahead.contains("24h") && ahead.contains("ahead"), "{ahead}");
        assert_eq!(clock_note(u64::MAX, at(0), at(0)), None);
    }
}
