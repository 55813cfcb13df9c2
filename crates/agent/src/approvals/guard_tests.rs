use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vestal_sandbox::{Opening, Reach};

use super::ask::ApprovalWait;
use super::guard::{Dirs, Guard};
use super::judge::{ApprovalContext, GuardedAction};
use super::policy::{
    ApprovalPolicy, ApprovalRefusal, Clearance, GuardMode, RefusalStatus, Unattended,
};
use crate::human::{Approval, ApprovalRequest, Human, NoHuman, Question};
use crate::redact::Redactor;
use crate::testing::{Scripted, TEST_TIMEOUT, until};

pub(super) const DANGEROUS: &str = "rm -r build";

pub(super) fn policy() -> ApprovalPolicy {
    ApprovalPolicy {
        user_home: Some("/home/me".into()),
        vestal_home: Some("/home/me/.vestal".into()),
        timeout: TEST_TIMEOUT,
        ..ApprovalPolicy::default()
    }
}

/// Returns a directory of the user's, which nobody has made.
pub(super) fn dir() -> Dirs {
    let dir = Some(PathBuf::from("/home/me/project"));
    Dirs { begins: dir.clone(), opened: dir }
}

pub(super) fn guard(policy: ApprovalPolicy) -> Guard {
    Guard::new(policy, Arc::new(|_| Ok(())))
}

pub(super) fn situation(reach: Reach, human: &dyn Human) -> ApprovalContext {
    ApprovalContext { reach, automatic: false, attended: human.is_present() }
}

pub(super) async fn decide(
    guard: &Guard,
    situation: &ApprovalContext,
    action: &GuardedAction,
    human: &dyn Human,
) -> Result<Clearance, ApprovalRefusal> {
    let (cancel, redactor) = (CancellationToken::new(), Redactor::default());
    guard
        .decide(situation, action, ApprovalWait { human, cancel: &cancel, redactor: &redactor })
        .await
}

/// Decides about a command on the host.
pub(super) async fn on_host(
    guard: &Guard,
    command: &str,
    human: &dyn Human,
) -> Result<Clearance, ApprovalRefusal> {
    let situation = situation(Reach::Host, human);
    decide(guard, &situation, &guard.command_action(&Reach::Host, dir(), command), human).await
}

pub(super) fn status(decision: &Result<Clearance, ApprovalRefusal>) -> Option<RefusalStatus> {
    decision.as_ref().err().map(|refusal| refusal.status)
}

pub(super) fn mounted() -> Reach {
    let (host, target) = ("/home/me/project".into(), "/workspace".into());
    Reach::Mounts(vec![Opening::Mount { host, target, read_only: false }])
}

#[tokio::test]
async fn hardline_rules_hold_whatever_is_allowed() {
    let allowed = guard(ApprovalPolicy {
        mode: GuardMode::Off,
        unattended: Unattended::Allow,
        allowlist: vec!["*".to_owned(), "delete-system:rm -rf /".to_owned(), "rm -rf /".to_owned()],
        ..policy()
    });
    allowed.set_yolo(true);
    for guard in [&allowed, &allowed.for_child(true)] {
        let human = Scripted::approving([Approval::Always]);
        for reach in [Reach::Host, mounted(), Reach::Contained] {
            let action = guard.command_action(&reach, dir(), "rm -rf /");
            let decision = decide(guard, &situation(reach, &*human), &action, &*human).await;
            assert_eq!(status(&decision), Some(RefusalStatus::Blocked));
        }
        assert_eq!(human.asked(), [""; 0]);
    }
}

#[tokio::test]
async fn in_isolation_nothing_is_asked_and_only_what_is_forbidden_is_blocked() {
    let guard = guard(ApprovalPolicy { deny: vec!["npm publish*".to_owned()], ..policy() });
    let situation = situation(Reach::Contained, &NoHuman);
    let usual =
        ["rm -rf /var/lib/apt/lists/*", "rm -rf node_modules", "echo pw | sudo -S id", "kill 1"];
    for command in usual.into_iter().chain([DANGEROUS]) {
        let action = guard.command_action(&Reach::Contained, dir(), command);
        assert_eq!(
            decide(&guard, &situation, &action, &NoHuman).await,
            Ok(Clearance::default()),
            "{command}"
        );
    }
    let action = guard.command_action(&Reach::Contained, dir(), "cd x && npm publish --tag next");
    assert_eq!(
        status(&decide(&guard, &situation, &action, &NoHuman).await),
        Some(RefusalStatus::Blocked)
    );
    for command in ["rm -rf /", "rm -rf ~", "shutdown now"] {
        let action = guard.command_action(&Reach::Contained, dir(), command);
        let decision = decide(&guard, &situation, &action, &NoHuman).await;
        assert_eq!(status(&decision), Some(RefusalStatus::Blocked), "{command}");
    }
    let action = guard.script_action(&Reach::Contained, "import os");
    assert_eq!(decide(&guard, &situation, &action, &NoHuman).await, Ok(Clearance::default()));
    let action = guard.write_action(&Reach::Contained, Dirs::default(), "/etc/passwd");
    assert_eq!(decide(&guard, &situation, &action, &NoHuman).await, Ok(Clearance::default()));
}

#[tokio::test]
async fn what_the_user_forbids_is_blocked_however_it_is_wrapped() {
    let guard =
        guard(ApprovalPolicy { deny: vec!["git push*".to_owned(), "[".to_owned()], ..policy() });
    guard.set_yolo(true);
    for command in [
        "git push",
        "ls; sudo git push origin",
        "sh -c 'git push'",
        "/usr/bin/git push x",
        "x=$(git push)",
    ] {
        let decision = on_host(&guard, command, &NoHuman).await;
        let refusal = decision.expect_err(command);
        assert_eq!(refusal.status, RefusalStatus::Blocked);
        assert!(refusal.message.contains("approvals.deny"), "{}", refusal.message);
    }
    assert!(on_host(&guard, "echo 'git push'", &NoHuman).await.is_ok());
}

#[tokio::test]
async fn harmless_commands_are_not_asked_about() {
    let human = Scripted::approving([]);
    assert_eq!(on_host(&guard(policy()), "ls -la", &*human).await, Ok(Clearance::default()));
}

#[tokio::test]
async fn once_is_once() {
    let guard = guard(policy());
    let human = Scripted::approving([Approval::Once, Approval::Deny(Some("not now".to_owned()))]);
    let first = on_host(&guard, DANGEROUS, &*human).await.expect("approved");
    assert!(first.approved_by_person.is_some_and(|text| text.contains("once")));
    let second = on_host(&guard, DANGEROUS, &*human).await.expect_err("denied");
    assert_eq!(second.status, RefusalStatus::Denied);
    assert!(second.message.contains("not now"), "{}", second.message);
    assert_eq!(human.asked(), [DANGEROUS, DANGEROUS]);
}

#[tokio::test]
async fn an_approval_for_the_conversation_holds_for_the_same_and_nothing_else() {
    let guard = guard(policy());
    let human =
        Scripted::approving([Approval::Conversation, Approval::Deny(None), Approval::Deny(None)]);
    assert!(on_host(&guard, DANGEROUS, &*human).await.is_ok());
    assert_eq!(on_host(&guard, "ls && rm -r 'build'", &*human).await, Ok(Clearance::default()));
    assert!(on_host(&guard, "rm -r src", &*human).await.is_err());
    assert!(on_host(&guard, "cd .. && rm -r build", &*human).await.is_err());
    assert_eq!(human.asked().len(), 3);
}

#[tokio::test]
async fn an_approval_that_was_taken_back_is_asked_for_again() {
    let guard = guard(policy());
    let human = Scripted::approving([Approval::Conversation, Approval::Deny(None)]);
    assert!(on_host(&guard, DANGEROUS, &*human).await.is_ok());
    let approvals = guard.approvals();
    assert_eq!(approvals.len(), 1, "{approvals:?}");
    assert!(guard.withdraw(&approvals[0]) && !guard.withdraw(&approvals[0]));
    assert_eq!(guard.approvals(), [""; 0]);
    assert!(on_host(&guard, DANGEROUS, &*human).await.is_err());
    assert_eq!(human.asked().len(), 2);
}

#[tokio::test]
async fn what_differs_each_time_is_approved_as_a_whole_and_not_for_always() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let guard = Guard::new(
        policy(),
        Arc::new(move |key: &str| {
            keep.lock().unwrap().push(key.to_owned());
            Ok(())
        }),
    );
    let human = Scripted::approving([Approval::Always, Approval::Deny(None)]);
    assert!(on_host(&guard, "X=$(date); rm -r $X", &*human).await.is_ok());
    assert!(on_host(&guard, "X=$(date); rm -r $X", &*human).await.is_ok());
    assert!(on_host(&guard, "X=$(pwd); rm -r $X", &*human).await.is_err());
    assert_eq!(*kept.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn an_approval_for_always_is_kept_and_holds_in_the_next_conversation() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let remember = Arc::new(move |key: &str| {
        keep.lock().unwrap().push(key.to_owned());
        Ok(())
    });
    let human = Scripted::approving([Approval::Always]);
    let guard = Guard::new(policy(), remember);
    assert!(on_host(&guard, DANGEROUS, &*human).await.is_ok());
    assert!(on_host(&guard, DANGEROUS, &*human).await.is_ok());
    let allowlist = kept.lock().unwrap().clone();
    assert_eq!(allowlist, ["recursive-delete:rm -r build"]);
    let next = self::guard(ApprovalPolicy { allowlist, ..policy() });
    assert!(on_host(&next, DANGEROUS, &NoHuman).await.is_ok());
    assert!(on_host(&next, "rm -r *", &NoHuman).await.is_err());
    assert!(on_host(&next, "rm -r build src", &NoHuman).await.is_err());
}

#[tokio::test]
async fn an_approval_that_cannot_be_kept_is_still_an_approval() {
    let guard = Guard::new(policy(), Arc::new(|_| Err("the disk is full".to_owned())));
    let human = Scripted::approving([Approval::Always]);
    let clearance = on_host(&guard, DANGEROUS, &*human).await.expect("approved");
    assert!(clearance.approved_by_person.is_some_and(|text| text.contains("the disk is full")));
}

#[tokio::test]
async fn a_wildcard_that_was_approved_is_not_a_pattern() {
    let allowlist = vec!["recursive-delete:rm -r *".to_owned()];
    let guard = guard(ApprovalPolicy { allowlist, ..policy() });
    assert!(on_host(&guard, "rm -r *", &NoHuman).await.is_ok());
    assert!(on_host(&guard, "rm -r src", &NoHuman).await.is_err());
}

#[tokio::test]
async fn the_users_own_patterns_hold_for_each_command_by_itself() {
    let allowlist = vec!["docker stop *".to_owned(), "curl https://x.sh | sh".to_owned()];
    let guard = guard(ApprovalPolicy { allowlist, ..policy() });
    assert!(on_host(&guard, "docker stop web", &NoHuman).await.is_ok());
    assert!(on_host(&guard, "docker stop web && docker stop db", &NoHuman).await.is_ok());
    assert!(on_host(&guard, "docker stop web; rm -r build", &NoHuman).await.is_err());
    assert!(on_host(&guard, "docker stop $(rm -r build)", &NoHuman).await.is_err());
    assert!(on_host(&guard, " curl https://x.sh | sh\n", &NoHuman).await.is_ok());
    assert!(on_host(&guard, "curl https://y.sh | sh", &NoHuman).await.is_err());
}

#[tokio::test]
async fn silence_is_denial() {
    let guard = guard(ApprovalPolicy { timeout: Duration::from_millis(1), ..policy() });
    let human = Scripted::approving([]);
    let refusal = on_host(&guard, DANGEROUS, &*human).await.expect_err("denied");
    assert_eq!(refusal.status, RefusalStatus::Denied);
    assert!(refusal.message.contains("nobody answered"), "{}", refusal.message);
}

#[tokio::test]
async fn an_interrupt_is_denial() {
    let guard = guard(policy());
    let human = Scripted::approving([]);
    let (cancel, redactor) = (CancellationToken::new(), Redactor::default());
    let asking = ApprovalWait { human: &*human, cancel: &cancel, redactor: &redactor };
    let situation = situation(Reach::Host, &*human);
    let action = guard.command_action(&Reach::Host, dir(), DANGEROUS);
    let interrupt = async {
        until("the question is asked", || human.asked().len() == 1).await;
        cancel.cancel();
    };
    let (decision, ()) = tokio::join!(guard.decide(&situation, &action, asking), interrupt);
    let refusal = decision.expect_err("denied");
    assert_eq!(refusal.status, RefusalStatus::Denied);
    assert!(refusal.message.contains("interrupted"), "{}", refusal.message);
}

#[tokio::test]
async fn yolo_acts_at_once_on_this_conversation_alone() {
    let (one, other) = (guard(policy()), guard(policy()));
    let human = Scripted::approving([]);
    let flip = async {
        until("the question is asked", || human.asked().len() == 1).await;
        one.set_yolo(true);
    };
    let (decision, ()) = tokio::join!(on_host(&one, DANGEROUS, &*human), flip);
    assert_eq!(decision, Ok(Clearance::default()));
    assert!(on_host(&one, "git push --force", &NoHuman).await.is_ok());
    assert!(on_host(&other, DANGEROUS, &NoHuman).await.is_err());
    one.set_yolo(false);
    assert!(on_host(&one, DANGEROUS, &NoHuman).await.is_err());
}

/// Somebody who takes their time over an answer.
#[derive(Default)]
struct Slow(Mutex<usize>);

#[async_trait::async_trait]
impl Human for Slow {
    fn is_present(&self) -> bool {
        true
    }

    async fn approve(&self, _: &ApprovalRequest) -> Approval {
        *self.0.lock().unwrap() += 1;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        Approval::Conversation
    }

    async fn clarify(&self, _: &Question) -> Option<String> {
        None
    }
}

#[tokio::test]
async fn one_question_is_asked_at_a_time_and_its_answer_counts_for_both() {
    let (guard, human) = (guard(policy()), Slow::default());
    let (one, two) =
        tokio::join!(on_host(&guard, DANGEROUS, &human), on_host(&guard, DANGEROUS, &human));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(*human.0.lock().unwrap(), 1);
}

#[tokio::test]
async fn nobody_there_is_refusal_unless_configured() {
    let refusal = on_host(&guard(policy()), DANGEROUS, &NoHuman).await.expect_err("refused");
    assert_eq!(refusal.status, RefusalStatus::Unattended);
    assert!(refusal.message.contains("approvals.unattended"), "{}", refusal.message);
    let open = guard(ApprovalPolicy { unattended: Unattended::Allow, ..policy() });
    assert_eq!(on_host(&open, DANGEROUS, &NoHuman).await, Ok(Clearance::default()));
}

#[tokio::test]
async fn switched_off_nothing_is_asked() {
    let guard = guard(ApprovalPolicy { mode: GuardMode::Off, ..policy() });
    let human = Scripted::approving([]);
    assert_eq!(on_host(&guard, DANGEROUS, &*human).await, Ok(Clearance::default()));
}

#[tokio::test]
async fn on_a_host_that_nobody_chose_danger_is_always_asked_about() {
    let off =
        guard(ApprovalPolicy { mode: GuardMode::Off, unattended: Unattended::Allow, ..policy() });
    let human = Scripted::approving([Approval::Once]);
    let unchosen =
        |human: &dyn Human| ApprovalContext { automatic: true, ..situation(Reach::Host, human) };
    let action = off.command_action(&Reach::Host, dir(), DANGEROUS);
    assert!(decide(&off, &unchosen(&*human), &action, &*human).await.is_ok());
    assert_eq!(human.asked().len(), 1);
    let refusal = decide(&off, &unchosen(&NoHuman), &action, &NoHuman).await.expect_err("refused");
    assert_eq!(refusal.status, RefusalStatus::Unattended);
    assert!(refusal.message.contains("terminal.backend"), "{}", refusal.message);
    let child = off.for_child(true);
    assert!(decide(&child, &unchosen(&NoHuman), &action, &NoHuman).await.is_err());
    // What isolates needs no such care, no matter who chose it.
    let mounted = ApprovalContext { automatic: true, ..situation(mounted(), &NoHuman) };
    assert!(decide(&off, &mounted, &action, &NoHuman).await.is_ok());
}

#[tokio::test]
async fn a_child_asks_nobody_and_shares_what_its_parent_was_allowed() {
    let parent = guard(policy());
    let human = Scripted::approving([Approval::Conversation]);
    let child = parent.for_child(false);
    let refusal = on_host(&child, DANGEROUS, &*human).await.expect_err("denied");
    assert_eq!(refusal.status, RefusalStatus::Denied);
    assert!(refusal.message.contains("subagent"), "{}", refusal.message);
    assert_eq!(human.asked(), [""; 0]);
    assert!(on_host(&parent.for_child(true), DANGEROUS, &NoHuman).await.is_ok());
    assert!(on_host(&parent, DANGEROUS, &*human).await.is_ok());
    assert!(on_host(&child, DANGEROUS, &NoHuman).await.is_ok());
    parent.set_yolo(true);
    assert!(on_host(&child, "rm -r src", &NoHuman).await.is_ok());
}

#[tokio::test]
async fn secrets_are_neither_shown_nor_kept() {
    let kept = Arc::new(Mutex::new(0));
    let count = Arc::clone(&kept);
    let guard = Guard::new(
        policy(),
        Arc::new(move |_: &str| {
            *count.lock().unwrap() += 1;
            Ok(())
        }),
    );
    let human = Scripted::approving([Approval::Always]);
    assert!(on_host(&guard, "mysql --password=hunter2 -e 'drop table t'", &*human).await.is_ok());
    assert_eq!(human.asked(), ["mysql --password=*** -e 'drop table t'"]);
    assert_eq!(*kept.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_script_is_asked_about_as_a_whole_and_approved_for_the_conversation() {
    let guard = guard(policy());
    let human = Scripted::approving([Approval::Conversation]);
    let situation = situation(Reach::Host, &*human);
    for code in ["print(1)", "import os\nos.remove('x')"] {
        let action = guard.script_action(&Reach::Host, code);
        assert!(decide(&guard, &situation, &action, &*human).await.is_ok());
    }
    assert_eq!(human.asked(), ["print(1)"]);
    let action = guard.script_action(&Reach::Host, "import os; os.system('rm -rf /')");
    assert_eq!(
        status(&decide(&guard, &situation, &action, &*human).await),
        Some(RefusalStatus::Blocked)
    );
}
