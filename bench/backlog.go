package main

var backlogMeasure = measure{name: "backlog"}
