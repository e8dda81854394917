"""What is known about the verifiers: labelled cases, and an audit with error rates."""

from rewards.audit.auditing import run
from rewards.audit.hosting import HostingFault
from rewards.audit.report import Report

__all__ = ["HostingFault", "Report", "run"]
