package main

var enqueueMeasure = measure{name: "enqueue"}
