//! What `vestal doctor` says of native sandboxes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::cgroups;
use super::enforce::Means;
use super::trial::Trial;
use crate::backend::DoctorNote;
use crate::backends::scope::Scope;

/// How many control groups are named.
const NAMED: usize = 5;

/// Returns what there is to say beyond whether they work.
pub(super) fn report(trial: &Trial, known: &BTreeSet<String>) -> Vec<DoctorNote> {
    let Trial::Passed { tier, missing } = trial else {
        // The probe has said what is wrong.
        return Vec::new();
    };
    let uid = rustix::process::geteuid().as_raw();
    let scope = Scope::detect(uid);
    let means = Means::of_this_machine(scope.as_ref(), uid);
    let mut remarks = vec![remark("tier", format!("{tier}: {}", tier.meaning()), None)];
    for lack in missing {
        let (text, advice) = lack.split_once(": ").unwrap_or((lack, ""));
        remarks.push(remark("tier", text.to_owned(), Some(advice.to_owned())));
    }
    remarks.push(limits(&means));
    if let Means::Groups(hierarchies) = &means {
        remarks.extend(stray_groups(&cgroups::strays(hierarchies, known)));
    }
    if scope.is_some() {
        let text = "each sandbox has a systemd scope of its own and survives the session";
        remarks.push(remark("scope", text.to_owned(), None));
    }
    remarks
}

/// Returns what is said of control groups that no process is in and no sandbox of
/// this profile has. Those of another home's cannot be told from those of nobody's;
/// either's next start makes its own.
fn stray_groups(groups: &[PathBuf]) -> Option<DoctorNote> {
    if groups.is_empty() {
        return None;
    }
    let named = groups.iter().take(NAMED).map(|group| group.display().to_string());
    let more = groups.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    let named = named.chain(more).collect::<Vec<_>>().join(", ");
    let text = format!("no process and no sandbox of this profile has the control groups {named}");
    let advice = "they are of sandboxes that are gone, or that another home has stopped, and do no \
                  harm; to remove one: rmdir GROUP";
    Some(remark("groups", text, Some(advice.to_owned())))
}

fn limits(means: &Means) -> DoctorNote {
    let (held, lost) = means.abilities();
    let by = match means {
        Means::Systemd(_) => "systemd",
        Means::Groups(_) => "control groups",
    };
    let mut text = format!("processes are limited, and by {by}: ");
    text.push_str(&if held.is_empty() { "nothing else".to_owned() } else { held.join(", ") });
    let advice = (!lost.is_empty()).then(|| {
        format!(
            "not limited: {}; run vestal as root, or have systemd delegate the controllers to \
             your session",
            lost.join(", ")
        )
    });
    remark("limits", text, advice)
}

fn remark(topic: &str, text: String, advice: Option<String>) -> DoctorNote {
    DoctorNote { topic: topic.to_owned(), text, advice: advice.filter(|advice| !advice.is_empty()) }
}
