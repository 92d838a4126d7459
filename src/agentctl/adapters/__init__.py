"""One file per agent: native facts in, evidence out. An adapter never decides a status."""
