package main

var memoryMeasure = measure{name: "memory"}
